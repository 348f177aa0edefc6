package controller

import (
	"context"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"
)

const (
	// writeConnections is the number of connections for writes. docs/decisions.md has the numbers for 1 and 4.
	writeConnections = 4

	// idleFor is how long a connection for writes is kept without a write. The first one is kept for ever.
	idleFor = 10 * time.Second
)

// line is the dial holder of a connection for writes.
type line struct {
	holder *transport.DialHolder
	open   atomic.Bool // an answer came over the connection, and it was not closed since
}

// newLines returns a line for each connection for writes.
func newLines(dial utilnet.DialFunc) (made [writeConnections]*line) {
	for i := range made {
		of := &line{}
		of.holder = &transport.DialHolder{Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
			dialed, err := dial(ctx, network, address)
			if err != nil {
				return nil, err
			}
			return &lineConnection{dialed, of}, nil
		}}
		made[i] = of
	}
	return made
}

// lineConnection is a connection of a line.
type lineConnection struct {
	net.Conn
	of *line
}

// Close closes the connection. If the line has another one, the next answer says so.
func (c *lineConnection) Close() error {
	c.of.open.Store(false)
	return c.Conn.Close()
}

// configuring is held while a limit of a transport is read or set: client-go may give it to several managers.
var configuring sync.Mutex

// writesFor returns a transport for the writes to an API server.
func writesFor(config *rest.Config, lines [writeConnections]*line) (http.RoundTripper, error) {
	made := &leastBusy{lines: lines}
	configuring.Lock()
	defer configuring.Unlock()
	for i, line := range lines {
		one, err := transportFor(config, line.holder)
		if err != nil {
			return nil, err
		}
		if of := innermost(one); of != nil && of.IdleConnTimeout != idleTime(i) { // Otherwise it may be in use.
			of.IdleConnTimeout = idleTime(i)
		}
		made.over[i] = one
	}
	return made, nil
}

// idleTime returns how long a line keeps a connection without a write. 0 is for ever.
func idleTime(line int) time.Duration {
	if line == 0 {
		return 0
	}
	return idleFor
}

// leastBusy sends each request over the open connection that waits for the fewest answers: the first one of several. So
// while writes are rare, one connection is enough. While all of them wait for answers, a single request opens another
// one: net/http dials for each request without an open connection, and handshakes of dozens delay what they are for.
type leastBusy struct {
	lines [writeConnections]*line
	over  [writeConnections]http.RoundTripper
	busy  [writeConnections]atomic.Int32 // the requests that wait for an answer; concurrent choices may differ by a few
}

// RoundTrip sends a request.
func (l *leastBusy) RoundTrip(request *http.Request) (*http.Response, error) {
	chosen := l.choose()
	defer l.busy[chosen].Add(-1)
	answer, err := l.over[chosen].RoundTrip(request)
	if err == nil && !l.lines[chosen].open.Load() {
		l.lines[chosen].open.Store(true)
	}
	return answer, err
}

// choose returns the line for a request, and counts the request.
func (l *leastBusy) choose() int {
	least, open := 0, -1
	for i := range l.busy {
		busy := l.busy[i].Load()
		if busy < l.busy[least].Load() {
			least = i
		}
		if l.lines[i].open.Load() && (open < 0 || busy < l.busy[open].Load()) {
			open = i
		}
	}
	if open < 0 {
		l.busy[least].Add(1)
		return least
	}
	if l.busy[open].Load() > 0 {
		for i := range l.busy {
			if !l.lines[i].open.Load() && l.busy[i].CompareAndSwap(0, 1) {
				return i
			}
		}
	}
	l.busy[open].Add(1)
	return open
}

// CloseIdleConnections closes the idle connections.
func (l *leastBusy) CloseIdleConnections() {
	for _, over := range l.over {
		utilnet.CloseIdleConnectionsFor(over)
	}
}
