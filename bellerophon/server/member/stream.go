package member

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/bellerophon-io/bellerophon/bellerophon/server/client"

	"github.com/hashicorp/raft"
)

// Path is where members connect to each other. A connection begins as an HTTP request for an upgrade. So a
// member needs only one address, one certificate and one port.
const Path = "/raft"

const (
	protocol      = "bellerophon-raft/1"
	clusterHeader = "Bellerophon-Cluster"
	memberHeader  = "Bellerophon-Member"
)

// stream carries the connections of raft. It implements raft.StreamLayer.
type stream struct {
	identity *identity
	dial     client.Dialer
	address  raft.ServerAddress
	accepted chan net.Conn

	mu     sync.Mutex
	open   map[*tracked]bool // nil after Close
	closed chan struct{}
}

func newStream(i *identity, address raft.ServerAddress, dial client.Dialer) *stream {
	return &stream{
		identity: i, dial: dial, address: address,
		accepted: make(chan net.Conn), open: map[*tracked]bool{}, closed: make(chan struct{}),
	}
}

// addressOf returns the address of a member for raft. It has the member's ID, so that a connection reaches
// the member itself, and not one that took its place with an empty volume.
func addressOf(id, host string) raft.ServerAddress { return raft.ServerAddress(id + "@" + host) }

// hostOf returns the host and port of an address.
func hostOf(address raft.ServerAddress) string {
	_, host, _ := strings.Cut(string(address), "@")
	return host
}

// Dial opens a connection to a member.
func (s *stream) Dial(address raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	id, host, _ := strings.Cut(string(address), "@")
	conn, err := s.dial(ctx, host)
	if err != nil {
		return nil, err
	}
	upgraded, err := s.upgrade(ctx, conn, id, host)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("connecting to member %s at %s: %w", id, host, err), conn.Close())
	}
	return s.track(upgraded)
}

func (s *stream) upgrade(ctx context.Context, conn net.Conn, id, host string) (net.Conn, error) {
	if deadline, limited := ctx.Deadline(); limited {
		if err := conn.SetDeadline(deadline); err != nil {
			return nil, err
		}
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+host+Path, nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Connection", "Upgrade")
	request.Header.Set("Upgrade", protocol)
	request.Header.Set(clusterHeader, s.identity.cluster())
	request.Header.Set(memberHeader, id)
	if err := request.Write(conn); err != nil {
		return nil, err
	}
	reader := bufio.NewReader(conn)
	response, err := http.ReadResponse(reader, request)
	if err != nil {
		return nil, err
	}
	_ = response.Body.Close()
	if response.StatusCode != http.StatusSwitchingProtocols {
		return nil, fmt.Errorf("it answered %s", response.Status)
	}
	return buffered{conn, reader}, conn.SetDeadline(time.Time{})
}

// ServeHTTP turns a request for an upgrade into a connection of raft. It refuses requests of another cluster,
// and requests for another member. A member without a cluster joins the one of the request.
func (s *stream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Upgrade") != protocol {
		http.Error(w, "this path is for other members; want an upgrade to "+protocol, http.StatusUpgradeRequired)
		return
	}
	if got := r.Header.Get(memberHeader); got != s.identity.id() {
		http.Error(w, fmt.Sprintf("this is member %s, not %s", s.identity.id(), got), http.StatusMisdirectedRequest)
		return
	}
	cluster := r.Header.Get(clusterHeader)
	if cluster == "" {
		http.Error(w, "the request names no cluster", http.StatusBadRequest)
		return
	}
	if err := s.identity.adopt(cluster); err != nil {
		http.Error(w, err.Error(), http.StatusConflict)
		return
	}
	conn, pipe, err := http.NewResponseController(w).Hijack()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	held, err := s.track(buffered{conn, pipe.Reader})
	if err != nil {
		_ = conn.Close()
		return
	}
	const switching = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: " + protocol + "\r\n\r\n"
	if err := conn.SetDeadline(time.Time{}); err == nil {
		_, err = conn.Write([]byte(switching))
		if err == nil {
			select {
			case s.accepted <- held:
				return
			case <-s.closed:
			}
		}
	}
	_ = held.Close()
}

// Accept returns the next connection from another member.
func (s *stream) Accept() (net.Conn, error) {
	select {
	case conn := <-s.accepted:
		return conn, nil
	case <-s.closed:
		return nil, net.ErrClosed
	}
}

// Close closes all connections, so that the goroutines of raft that read from them end.
func (s *stream) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open == nil {
		return nil
	}
	close(s.closed)
	for conn := range s.open {
		_ = conn.Conn.Close()
	}
	s.open = nil
	return nil
}

// Addr returns the address of this member, for raft.
func (s *stream) Addr() net.Addr { return raftAddress(s.address) }

func (s *stream) track(conn net.Conn) (net.Conn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open == nil {
		return nil, errors.Join(net.ErrClosed, conn.Close())
	}
	held := &tracked{conn, s}
	s.open[held] = true
	return held, nil
}

// tracked is a connection that its stream closes at the latest.
type tracked struct {
	net.Conn
	of *stream
}

func (t *tracked) Close() error {
	t.of.mu.Lock()
	delete(t.of.open, t)
	t.of.mu.Unlock()
	return t.Conn.Close()
}

// buffered reads what a reader of HTTP has read ahead.
type buffered struct {
	net.Conn
	from *bufio.Reader
}

func (b buffered) Read(p []byte) (int, error) { return b.from.Read(p) }

// raftAddress implements net.Addr.
type raftAddress string

func (raftAddress) Network() string  { return "raft" }
func (a raftAddress) String() string { return string(a) }
