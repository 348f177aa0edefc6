package controller

import (
	"context"
	"net"
	"net/http"

	"github.com/bellerophon-io/bellerophon/controller/internal/election"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
)

// fenced returns a client that sends the writes of the leader over connections of their own, which last for
// an epoch at most. A configuration with a transport of its own has no such connections. Then the context of
// a write ends it.
func (l *leader) fenced(config *rest.Config, client *http.Client) (*http.Client, error) {
	l.fence.Open = transportOf(client)
	l.fence.Epochs = l.fence.Open
	if config.Transport == nil {
		raw, wrap := election.Dialer(dialTCP), func(dialed net.Conn, check func() error) net.Conn {
			return newConnection(checked(newSocket(dialed), check))
		}
		if config.Dial != nil {
			raw, wrap = config.Dial, checked
		}
		own := rest.CopyConfig(config)
		own.Dial = nil
		epochs, err := writesFor(own, newLines(utilnet.DialFunc(l.elector.Dial(raw, wrap))))
		if err != nil {
			return nil, err
		}
		l.fence.Epochs = epochs
	}
	over := *client
	over.Transport = &l.fence
	return &over, nil
}

// transportOf returns the transport of a client.
func transportOf(client *http.Client) http.RoundTripper {
	if client.Transport == nil {
		return http.DefaultTransport
	}
	return client.Transport
}

// passes reports whether each replica may send the writes of a context.
func (l *leader) passes(ctx context.Context) bool {
	if election.IsUnfenced(ctx) {
		return true
	}
	member := l.manager.memberOf(ctx)
	return member != nil && !member.elected
}

// checkedConnection is a connection that checks before each write.
type checkedConnection struct {
	net.Conn
	check func() error
}

// checked returns a connection that sends nothing if check fails.
func checked(dialed net.Conn, check func() error) net.Conn {
	if checksItself(dialed, check) {
		return dialed
	}
	return &checkedConnection{dialed, check}
}

// Write sends bytes if the check succeeds.
func (c *checkedConnection) Write(bytes []byte) (int, error) {
	if err := c.check(); err != nil {
		return 0, err
	}
	return c.Conn.Write(bytes)
}
