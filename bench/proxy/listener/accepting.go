package listener

import (
	"net"
	"sync"
	"sync/atomic"
)

// accepting counts the connections that it accepted and that are open. The server's own hook loses sight of a
// connection that becomes a WebSocket.
type accepting struct {
	net.Listener
	open atomic.Int64
}

// Accept implements net.Listener.
func (a *accepting) Accept() (net.Conn, error) {
	conn, err := a.Listener.Accept()
	if err != nil {
		return nil, err
	}
	a.open.Add(1)
	return &accepted{conn, sync.OnceFunc(func() { a.open.Add(-1) })}, nil
}

type accepted struct {
	net.Conn
	gone func()
}

func (a *accepted) Close() error {
	defer a.gone()
	return a.Conn.Close()
}
