package gate

import (
	"bufio"
	"net"
	"net/http"
)

// upgradable lets the forwarder take over the connection of a WebSocket. By itself, that
// closes only half of it when the contender closes its half, and the watch stays open.
type upgradable struct {
	http.ResponseWriter
	gone func() // is called when the contender has closed its half
}

// Hijack implements http.Hijacker.
func (u *upgradable) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffered, err := http.NewResponseController(u.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	return &socket{conn, u.gone}, buffered, nil
}

// Unwrap lets the forwarder flush.
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
