package faultproxy

import (
	"context"
	"net"
	"sync"
)

// dialled are the connections to the API server. An HTTP/2 transport leaves one open whose
// last stream is ending just when it closes those that are idle.
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

// through returns a dial function that keeps what it opens.
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

// close closes what is still open.
func (d *dialled) close() {
	d.mu.Lock()
	var open []*dialledConn
	for one := range d.open {
		open = append(open, one)
	}
	d.mu.Unlock()
	for _, one := range open {
		_ = one.Close() // Nothing is sent on it any more.
	}
}
