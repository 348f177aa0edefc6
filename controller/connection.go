package controller

import (
	"context"
	"errors"
	"net"
	"runtime"
	"sync"
	"time"

	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
)

const (
	// sendNow is the number of pending bytes that are sent at once. With fewer, other goroutines that
	// are about to write run first. A request without its body has 40 to 120 bytes.
	sendNow = 1000

	// maxPending is the number of pending bytes above which writers wait.
	maxPending = 64 << 10

	// flushTimeout is how long Close may take to send the pending bytes.
	flushTimeout = 250 * time.Millisecond
)

// connection sends successive writes together. HTTP/2 writes the header of each request, its body and
// each window update separately. Without connection, each of these writes costs a system call here
// and another one at the server. [connection.Write] returns before the bytes are sent, which makes no
// difference to HTTP or TLS. All methods may be called from any goroutine.
type connection struct {
	net.Conn
	sender *lifecycle.Group

	mu      sync.Mutex
	changed *sync.Cond // signals changes of the fields below
	pending []byte     // written and not sent yet
	closed  bool
	failed  error // of the send that ended the sender
}

func newConnection(dialed net.Conn) *connection {
	c := &connection{Conn: dialed, sender: lifecycle.New(context.Background())}
	c.changed = sync.NewCond(&c.mu)
	c.sender.Go("sending", c.send)
	return c
}

// Write queues bytes to be sent. It fails once a send of earlier bytes has failed.
func (c *connection) Write(bytes []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.pending) >= maxPending && !c.closed && c.failed == nil {
		c.changed.Wait()
	}
	switch {
	case c.failed != nil:
		return 0, c.failed
	case c.closed:
		return 0, net.ErrClosed
	}
	if len(c.pending) == 0 {
		c.changed.Broadcast()
	}
	c.pending = append(c.pending, bytes...)
	return len(bytes), nil
}

// Read reads from the connection. If a failed send closed the connection, Read returns the error of
// that send.
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

// Close sends the pending bytes, within flushTimeout, and closes the connection.
func (c *connection) Close() error {
	c.mu.Lock()
	c.closed = true
	c.changed.Broadcast()
	c.mu.Unlock()
	_ = c.Conn.SetWriteDeadline(time.Now().Add(flushTimeout)) // It fails if the connection is closed already.
	_ = c.sender.Wait()
	return c.Conn.Close()
}

// send sends the pending bytes until the connection is closed or a send fails.
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
			return c.Conn.Close() // This ends a Read that waits.
		}
	}
}

// next waits for pending bytes and returns them. It reuses the memory of sent for the bytes that
// follow. Once the connection is closed and everything is sent, it returns nothing.
func (c *connection) next(sent []byte) []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.pending) == 0 && !c.closed {
		c.changed.Wait()
	}
	if len(c.pending) < sendNow && !c.closed {
		c.mu.Unlock()
		runtime.Gosched() // A goroutine that wrote a header is about to write the body.
		c.mu.Lock()
	}
	if len(c.pending) >= maxPending {
		c.changed.Broadcast()
	}
	next := c.pending
	c.pending = sent[:0]
	return next
}
