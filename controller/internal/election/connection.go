package election

import (
	"context"
	"net"
)

// Dialer dials a connection.
type Dialer func(ctx context.Context, network, address string) (net.Conn, error)

// connection is a connection for the writes of one epoch.
type connection struct {
	net.Conn
	dialed net.Conn
	epoch  *Epoch
}

// Dial returns a function that dials for the writes of the current epoch. It fails if this replica does not
// lead. wrap returns a dialed connection that calls check right before each system call that sends, and sends
// nothing if check fails.
//
// The end of the epoch resets the connection, so that the kernel drops what it has not sent. On Linux, the
// kernel also gives up what the server has not received in time, even while this process is stopped.
func (e *Elector) Dial(dial Dialer, wrap func(dialed net.Conn, check func() error) net.Conn) Dialer {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		epoch := e.Epoch()
		if epoch == nil {
			return nil, e.refusal()
		}
		dialed, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		if err := LimitUnsent(dialed, unsent(epoch.spare)); err != nil {
			_ = dialed.Close()
			return nil, err
		}
		made := &connection{Conn: wrap(dialed, epoch.Check), dialed: dialed, epoch: epoch}
		if !epoch.track(made) {
			made.reset()
			_ = made.Conn.Close()
			return nil, e.refusal()
		}
		return made, nil
	}
}

// Close closes the connection.
func (c *connection) Close() error {
	c.epoch.forget(c)
	return c.Conn.Close()
}

// reset closes the dialed connection at once, and drops what was not sent.
func (c *connection) reset() {
	if abort, can := c.dialed.(interface{ SetLinger(seconds int) error }); can {
		_ = abort.SetLinger(0) // It may be closed already.
	}
	_ = c.dialed.Close()
}
