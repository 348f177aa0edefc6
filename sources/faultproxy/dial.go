package faultproxy

import (
	"context"
	"net"
	"sync"
)

// dialled holds the connections to the API server. When an HTTP/2 transport closes its idle
// connections, it misses one whose last stream is just ending.
type dialled struct {
	mu   sync.Mutex
	open map[*dialledConn]struct{}
}

type dialledConn struct {
	net.Conn
	all *dialled
}

// Close implements net.Conn.
func (c *dialledConn) Close() error {
	c.all.mu.Lock()
	delete(c.all.open, c)
	c.all.mu.Unlock()
	return c.Conn.Close()
}

type dial func(ctx context.Context, network, address string) (net.Conn, error)

// through returns a dial function that records the connections it opens.
func (d *dialled) through(inner dial) dial {
	if inner == nil {
		inner = (&net.Dialer{}).DialContext
	}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		opened, err := inner(ctx, network, address)
		if err != nil {
			return nil, err
		}
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.open == nil {
			d.open = map[*dialledConn]struct{}{}
		}
		kept := &dialledConn{opened, d}
		d.open[kept] = struct{}{}
		return kept, nil
	}
}

// close closes the connections that are still open.
func (d *dialled) close() {
	d.mu.Lock()
	var open []*dialledConn
	for one := range d.open {
		open = append(open, one)
	}
	d.mu.Unlock()
	for _, one := range open {
		_ = one.Close() // Nothing more is sent on the connection.
	}
}
