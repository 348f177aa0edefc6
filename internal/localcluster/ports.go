package localcluster

import (
	"errors"
	"fmt"
	"net"
	"strconv"
)

// loopback is the only address that anything listens on.
const loopback = "127.0.0.1"

// ports holds the ports of 127.0.0.1 that a cluster listens on.
type ports struct{ api, etcd, etcdPeer int }

// freePorts returns free ports. Another process may take them before the cluster listens on them,
// so the caller has to be ready to try again. api is the port of the API server, or 0 for any
// port.
func freePorts(api int) (ports, error) {
	var found [3]int
	for i, wanted := range [3]int{api, 0, 0} {
		listener, err := net.Listen("tcp", address(wanted))
		if err != nil && wanted != 0 {
			return ports{}, fmt.Errorf("the API server cannot listen on port %d: %w; choose another port, or 0 for any free one", wanted, err)
		}
		if err != nil {
			return ports{}, fmt.Errorf("find a free port of %s: %w", loopback, err)
		}
		// The listener stays open until all ports are found, so that they differ.
		defer listener.Close()
		tcp, ok := listener.Addr().(*net.TCPAddr)
		if !ok {
			return ports{}, errors.New("find a free port: the listener has no TCP address")
		}
		found[i] = tcp.Port
	}
	return ports{api: found[0], etcd: found[1], etcdPeer: found[2]}, nil
}

func address(port int) string { return net.JoinHostPort(loopback, strconv.Itoa(port)) }

func url(port int) string { return "https://" + address(port) }
