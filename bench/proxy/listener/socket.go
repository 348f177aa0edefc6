package listener

import (
	"bufio"
	"net"
	"net/http"
)

// upgradable lets the forwarder hijack the connection of a WebSocket, and calls gone when the
// contender closes its half. The forwarder alone would close only that half, and the watch would
// stay open.
type upgradable struct {
	http.ResponseWriter
	gone func() // called when the contender has closed its half
}

// Hijack implements http.Hijacker.
func (u *upgradable) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffered, err := http.NewResponseController(u.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	return &socket{conn, u.gone}, buffered, nil
}

// Unwrap returns the underlying writer, so that the forwarder can flush it.
func (u *upgradable) Unwrap() http.ResponseWriter { return u.ResponseWriter }

type socket struct {
	net.Conn
	gone func()
}

func (s *socket) Read(into []byte) (int, error) {
	n, err := s.Conn.Read(into)
	if err != nil {
		s.gone()
	}
	return n, err
}
