package localcluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"

	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
)

// forward accepts connections on an address of this machine, and connects each to a server in the
// network of a real node.
type forward struct {
	listener net.Listener
	group    *lifecycle.Group
	dial     func(ctx context.Context) (net.Conn, error)
}

// newForward listens on an address until stop.
func newForward(address string, dial func(ctx context.Context) (net.Conn, error)) (*forward, error) {
	listener, err := net.Listen("tcp", address)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("%w: %w", errAddressInUse, err)
	}
	if err != nil {
		return nil, err
	}
	f := &forward{listener: listener, group: lifecycle.New(context.Background()), dial: dial}
	f.group.Go("accept", func(context.Context) error {
		for {
			outside, err := listener.Accept()
			if err != nil {
				return nil // The listener is closed.
			}
			f.group.Go("connect", func(ctx context.Context) error {
				f.connect(ctx, outside)
				return nil
			})
		}
	})
	return f, nil
}

// connect dials the server for a new connection. A server that does not answer ends the connection.
func (f *forward) connect(ctx context.Context, outside net.Conn) {
	inside, err := f.dial(ctx)
	if err != nil {
		outside.Close()
		return
	}
	both := &connections{outside, inside}
	f.group.Go("requests", func(ctx context.Context) error { return both.copy(ctx, inside, outside) })
	f.group.Go("answers", func(ctx context.Context) error { return both.copy(ctx, outside, inside) })
}

// connections are the two ends of a forwarded connection.
type connections [2]net.Conn

// copy copies one direction. The end of the data ends this direction alone, and an error both.
func (c *connections) copy(ctx context.Context, to, from net.Conn) error {
	defer context.AfterFunc(ctx, c.close)()
	_, err := io.Copy(to, from)
	if tcp, ok := to.(*net.TCPConn); err == nil && ok && tcp.CloseWrite() == nil {
		return nil
	}
	c.close()
	return nil
}

func (c *connections) close() {
	for _, connection := range c {
		connection.Close()
	}
}

// stop closes the listener and all connections, and waits for their goroutines.
func (f *forward) stop() {
	f.listener.Close()
	f.group.Stop()
	_ = f.group.Wait() // Its functions return no errors.
}
