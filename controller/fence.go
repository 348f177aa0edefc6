package controller

import (
	"context"
	"net"
	"net/http"

	"github.com/bellerophon-io/bellerophon/controller/internal/election"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"
)

// fenced returns a client that sends the writes of the leader over connections of their own, which last for
// an epoch at most. A configuration with a transport of its own has no such connections. Then the context of
// a write ends it.
func (l *leader) fenced(config *rest.Config, client *http.Client) (*http.Client, error) {
	l.fence.Open = transportOf(client)
	l.fence.Epochs = l.fence.Open
	if config.Transport == nil {
		raw, wrap := election.Dialer(dialTCP), func(dialed net.Conn, check func() error) net.Conn {
			return checked(newSocket(dialed), check)
		}
		if config.Dial != nil {
			raw, wrap = config.Dial, checked
		}
		epochs, err := l.epochsFor(config, l.elector.Dial(raw, wrap))
		if err != nil {
			return nil, err
		}
		l.fence.Epochs = epochs
	}
	over := *client
	over.Transport = &l.fence
	return &over, nil
}

// epochsFor returns a transport for the leader's writes with a dialer. A configuration with a dialer or protocols of its
// own keeps its protocols.
func (l *leader) epochsFor(config *rest.Config, dialer election.Dialer) (http.RoundTripper, error) {
	holder := &transport.DialHolder{Dial: dialer}
	own := config.Dial != nil || len(config.NextProtos) > 0
	config = rest.CopyConfig(config)
	if config.Dial = nil; own {
		return transportFor(config, holder)
	}
	return writesFor(config, holder)
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
