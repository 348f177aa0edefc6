package controller

import (
	"context"
	"errors"
	"net"
	"net/http"
	"runtime"
	"sync"
	"time"

	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"
)

const (
	// gathered is how many bytes are sent at once. For fewer, others who are about to write
	// have their turn first. A request without its body has 40 to 120.
	gathered = 1000

	// mostWaiting is how many bytes wait to be sent before writers wait as well.
	mostWaiting = 64 << 10

	// lastWords is how long a connection that is closed may take to send what waits.
	lastWords = 250 * time.Millisecond
)

// dialing is one for the process: client-go shares a transport, and so its connections, among
// those who dial with the same holder.
var dialing = &transport.DialHolder{Dial: dial}

// clientFor returns client-go's HTTP client for an API server, over a [connection]. A
// configuration that dials in its own way keeps that.
//
// A credential plugin closes the connections of a certificate that it replaces. To know them, it
// wraps the dialer of the configuration, so the dialer has to be there first. Such a transport is
// not shared. Changed certificate files need nothing here: the transport wraps any dialer.
func clientFor(config *rest.Config) (*http.Client, error) {
	if config.Dial != nil || config.Transport != nil {
		return rest.HTTPClientFor(config)
	}
	if config.ExecProvider != nil {
		config = rest.CopyConfig(config)
		config.Dial = dial
	}
	settings, err := config.TransportConfig()
	if err != nil {
		return nil, err
	}
	if settings.DialHolder == nil {
		settings.DialHolder = dialing
	}
	made, err := transport.New(settings)
	if err != nil {
		return nil, err
	}
	return &http.Client{Transport: made, Timeout: config.Timeout}, nil
}

// dial dials as client-go does, with its times.
func dial(ctx context.Context, network, address string) (net.Conn, error) {
	dialer := net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}
	dialed, err := dialer.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return newConnection(newSocket(dialed)), nil
}

// connection sends together what is written one after another: HTTP/2 writes the header of
// each request, its body and each update of a window by itself, and each of those is a
// system call here and another at the server. [connection.Write] does not wait until what
// it was given is sent; nobody who speaks HTTP or TLS can tell. All of its methods may be
// called from any goroutine.
type connection struct {
	net.Conn
	sender *lifecycle.Group

	mu      sync.Mutex
	changed *sync.Cond // is told of changes of what follows
	waiting []byte
	closed  bool
	failed  error // ended the sender
}

func newConnection(dialed net.Conn) *connection {
	c := &connection{Conn: dialed, sender: lifecycle.New(context.Background())}
	c.changed = sync.NewCond(&c.mu)
	c.sender.Go("sending", c.send)
	return c
}

// Write takes bytes to be sent. It fails once bytes before could not be sent.
func (c *connection) Write(bytes []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.waiting) >= mostWaiting && !c.closed && c.failed == nil {
		c.changed.Wait()
	}
	switch {
	case c.failed != nil:
		return 0, c.failed
	case c.closed:
		return 0, net.ErrClosed
	}
	if len(c.waiting) == 0 {
		c.changed.Broadcast()
	}
	c.waiting = append(c.waiting, bytes...)
	return len(bytes), nil
}

// Read reads what the server sent. If the connection ended because of a send, it says so.
func (c *connection) Read(bytes []byte) (int, error) {
	n, err := c.Conn.Read(bytes)
	if errors.Is(err, net.ErrClosed) {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.failed != nil {
			err = c.failed
		}
	}
	return n, err
}

// Close sends what waits, if that can be done soon, and closes the connection.
func (c *connection) Close() error {
	c.mu.Lock()
	c.closed = true
	c.changed.Broadcast()
	c.mu.Unlock()
	_ = c.Conn.SetWriteDeadline(time.Now().Add(lastWords)) // It fails if it is closed already.
	_ = c.sender.Wait()
	return c.Conn.Close()
}

// send sends what is written, until the connection is closed or a send fails.
func (c *connection) send(context.Context) error {
	var sending []byte
	for {
		if sending = c.next(sending); len(sending) == 0 {
			return nil
		}
		if _, err := c.Conn.Write(sending); err != nil {
			c.mu.Lock()
			c.failed = err
			c.changed.Broadcast()
			c.mu.Unlock()
			return c.Conn.Close() // Whoever reads learns of it.
		}
	}
}

// next waits for what is to be sent, and leaves the space of what was sent in its place.
// After the end there is nothing.
func (c *connection) next(sent []byte) []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.waiting) == 0 && !c.closed {
		c.changed.Wait()
	}
	if len(c.waiting) < gathered && !c.closed {
		c.mu.Unlock()
		runtime.Gosched() // Whoever wrote a header is about to write the body.
		c.mu.Lock()
	}
	if len(c.waiting) >= mostWaiting {
		c.changed.Broadcast()
	}
	next := c.waiting
	c.waiting = sent[:0]
	return next
}
