package forward

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"
)

const (
	localhost   = "127.0.0.1"
	acceptPause = 100 * time.Millisecond // after a failure to accept a connection, such as too many open files
)

// listener listens on a local port. Its connections end with it.
type listener struct {
	net.Listener
	close context.CancelFunc
}

// listen closes the listeners of ports that are not wanted, and opens the missing ones. The caller holds f.mu.
func (f *Forwards) listen() {
	wanted := map[port]bool{}
	for _, one := range f.wanted {
		wanted[port{one.Name, one.Target}] = true
	}
	changed := false
	for key := range f.listeners {
		if !wanted[key] {
			f.unlisten(key)
			changed = true
		}
	}
	for _, one := range f.wanted {
		key := port{one.Name, one.Target}
		if f.listeners[key] != nil {
			continue
		}
		opened, err := open(key.target)
		if err != nil {
			f.logger.Warn("open a local port", "port", key.target, "error", err) // The next Set tries again.
			continue
		}
		ctx, cancel := context.WithCancel(f.group.Context())
		f.listeners[key] = &listener{Listener: opened, close: cancel}
		f.group.Go(fmt.Sprintf("accept connections for port %d", key.target), func(context.Context) error {
			f.accept(ctx, opened, key.target)
			return nil
		})
		changed = true
	}
	if changed {
		f.changes.Send([]struct{}{{}})
	}
}

// unlisten closes the listener of a port. The caller holds f.mu.
func (f *Forwards) unlisten(key port) {
	closing := f.listeners[key]
	delete(f.listeners, key)
	closing.close()
	_ = closing.Close() // Nothing is buffered.
}

// open opens a local port, with the same number if it is free.
func open(target int) (net.Listener, error) {
	if opened, err := net.Listen("tcp4", net.JoinHostPort(localhost, strconv.Itoa(target))); err == nil {
		return opened, nil
	}
	return net.Listen("tcp4", net.JoinHostPort(localhost, "0"))
}

// accept serves the connections of a listener until it is closed.
func (f *Forwards) accept(ctx context.Context, from net.Listener, target int) {
	for {
		connection, err := from.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			f.logger.Warn("accept a local connection", "port", target, "error", err)
			select {
			case <-time.After(acceptPause):
				continue
			case <-ctx.Done():
				return
			}
		}
		local := connection.(*net.TCPConn)
		f.mu.Lock()
		if f.group == nil || ctx.Err() != nil {
			f.mu.Unlock()
			_ = local.Close()
			return
		}
		group := f.group
		group.Go("serve a local connection", func(context.Context) error {
			defer func() { _ = local.Close() }()
			f.serve(ctx, group, local, target)
			return nil
		})
		f.mu.Unlock()
	}
}
