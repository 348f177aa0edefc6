// Package connections gives the client of a manager several connections to the API server, as Bellerophon has them
// for writes. Without it, reads, watches and writes share one HTTP/2 connection.
package connections

import (
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"k8s.io/client-go/rest"
)

// number is how many connections a client has, as many as Bellerophon has for writes.
const number = 4

// Client creates an HTTP client for a manager's client. The caches of the manager keep the manager's connection.
func Client(config *rest.Config) (*http.Client, error) {
	made := &leastBusy{}
	for i := range made.over {
		own := rest.CopyConfig(config)
		own.Dial = (&net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}).DialContext // So client-go shares no connection.
		transport, err := rest.TransportFor(own)
		if err != nil {
			return nil, err
		}
		made.over[i] = transport
	}
	return &http.Client{Transport: made, Timeout: config.Timeout}, nil
}

// leastBusy sends each request over the connection that waits for the fewest answers, the first one of several.
type leastBusy struct {
	over [number]http.RoundTripper
	busy [number]atomic.Int32
}

// RoundTrip sends a request.
func (l *leastBusy) RoundTrip(request *http.Request) (*http.Response, error) {
	least := 0
	for i := range l.busy {
		if l.busy[i].Load() < l.busy[least].Load() {
			least = i
		}
	}
	l.busy[least].Add(1)
	defer l.busy[least].Add(-1)
	return l.over[least].RoundTrip(request)
}
