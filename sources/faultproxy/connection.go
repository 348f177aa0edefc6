package faultproxy

import (
	"net"
	"sync"
)

// connections holds the open connections of clients.
type connections struct {
	mu     sync.Mutex
	open   map[*connection]struct{}
	thawed chan struct{} // closed while bytes flow
}

func newConnections() *connections {
	c := &connections{open: map[*connection]struct{}{}, thawed: make(chan struct{})}
	close(c.thawed)
	return c
}

func (c *connections) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.open)
}

// flow returns a channel that is closed while bytes flow.
func (c *connections) flow() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.thawed
}

// Freeze stops all bytes between clients and the proxy, in both directions, while the
// connections stay open. New connections are accepted, and freeze in their handshake.
func (p *Proxy) Freeze() {
	p.connections.mu.Lock()
	defer p.connections.mu.Unlock()
	select {
	case <-p.connections.thawed:
		p.connections.thawed = make(chan struct{})
	default:
	}
}

// Thaw ends a Freeze. No bytes are lost: the held bytes follow.
func (p *Proxy) Thaw() {
	p.connections.mu.Lock()
	defer p.connections.mu.Unlock()
	select {
	case <-p.connections.thawed:
	default:
		close(p.connections.thawed)
	}
}

// Drop resets all connections of clients and returns how many there were.
func (p *Proxy) Drop() int {
	p.connections.mu.Lock()
	var open []*connection
	for one := range p.connections.open {
		open = append(open, one)
	}
	p.connections.mu.Unlock()
	for _, one := range open {
		one.reset()
	}
	return len(open)
}

// listener wraps the connections that it accepts.
type listener struct {
	net.Listener
	connections *connections
}

// Accept implements net.Listener.
func (l listener) Accept() (net.Conn, error) {
	accepted, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	made := &connection{Conn: accepted, all: l.connections, closed: make(chan struct{})}
	l.connections.mu.Lock()
	defer l.connections.mu.Unlock()
	l.connections.open[made] = struct{}{}
	return made, nil
}

// connection is one connection of a client, which can freeze.
type connection struct {
	net.Conn
	all    *connections
	once   sync.Once
	closed chan struct{}
}

// wait blocks until bytes flow, or the connection is closed.
func (c *connection) wait() {
	for {
		flow := c.all.flow()
		select {
		case <-c.closed:
			return
		case <-flow:
		}
		if flow == c.all.flow() { // It may have been frozen again meanwhile.
			return
		}
	}
}

// Read implements net.Conn. It also holds bytes that came just before a freeze.
func (c *connection) Read(into []byte) (int, error) {
	c.wait()
	n, err := c.Conn.Read(into)
	c.wait()
	return n, err
}

// Write implements net.Conn.
func (c *connection) Write(from []byte) (int, error) {
	c.wait()
	return c.Conn.Write(from)
}

// Close implements net.Conn.
func (c *connection) Close() error {
	c.once.Do(func() {
		close(c.closed)
		c.all.mu.Lock()
		defer c.all.mu.Unlock()
		delete(c.all.open, c)
	})
	return c.Conn.Close()
}

// reset closes the connection without a TLS or HTTP/2 message: the client gets a TCP reset.
func (c *connection) reset() {
	if tcp, is := c.Conn.(*net.TCPConn); is {
		_ = tcp.SetLinger(0) // If it fails, the connection closes in the ordinary way.
	}
	_ = c.Close()
}
