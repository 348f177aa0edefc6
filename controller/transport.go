package controller

import (
	"context"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"
)

const (
	// writeConnections is the number of connections for writes. docs/decisions.md has the numbers for 1 and 4.
	writeConnections = 4

	// idleFor is how long a connection for writes is kept without a write.
	idleFor = 10 * time.Second
)

// dialing is the dial holder of the process for reads, and dialingWrites has its holders for writes. client-go shares a
// transport, and so its connections, among the clients that have the same holder.
var (
	dialing       = &transport.DialHolder{Dial: dial}
	dialingWrites = holders(dial)
)

// holders returns a dial holder for each connection for writes.
func holders(dial utilnet.DialFunc) (made [writeConnections]*transport.DialHolder) {
	for i := range made {
		made[i] = &transport.DialHolder{Dial: dial}
	}
	return made
}

// clientFor returns client-go's HTTP client for an API server. Reads share an HTTP/2 connection, and writes have
// [writeConnections] others. All of them are a [connection]. A configuration with a dialer or transport of its own
// keeps it, for all requests.
func clientFor(config *rest.Config) (*http.Client, error) {
	if config.Dial != nil || config.Transport != nil {
		return rest.HTTPClientFor(config)
	}
	reads, err := transportFor(config, dialing)
	if err != nil {
		return nil, err
	}
	writes, err := writesFor(config, dialingWrites)
	if err != nil {
		return nil, err
	}
	return &http.Client{Transport: byVerb{reads, writes}, Timeout: config.Timeout}, nil
}

// transportFor returns client-go's transport for an API server, with a dialer.
//
// A credential plugin closes the connections of a certificate that it replaces. It finds them by
// wrapping the dialer of the configuration, so the dialer must be set first. Such a transport is not
// shared. Changed certificate files need nothing here, because the transport wraps any dialer.
func transportFor(config *rest.Config, holder *transport.DialHolder) (http.RoundTripper, error) {
	if config.ExecProvider != nil {
		config = rest.CopyConfig(config)
		config.Dial = holder.Dial
	}
	settings, err := config.TransportConfig()
	if err != nil {
		return nil, err
	}
	if settings.DialHolder == nil {
		settings.DialHolder = holder
	}
	return transport.New(settings)
}

// configuring is held while a limit of a transport is read or set: client-go may give it to several managers.
var configuring sync.Mutex

// writesFor returns a transport for the writes to an API server.
func writesFor(config *rest.Config, dialers [writeConnections]*transport.DialHolder) (http.RoundTripper, error) {
	made := &leastBusy{}
	configuring.Lock()
	defer configuring.Unlock()
	for i, holder := range dialers {
		one, err := transportFor(config, holder)
		if err != nil {
			return nil, err
		}
		if of := innermost(one); of != nil && of.IdleConnTimeout != idleFor { // Otherwise it may be in use.
			of.IdleConnTimeout = idleFor
		}
		made.over[i] = one
	}
	return made, nil
}

// innermost returns the transport that others wrap, or nil if it is of another type.
func innermost(of http.RoundTripper) *http.Transport {
	for {
		wrapper, wraps := of.(utilnet.RoundTripperWrapper)
		if !wraps {
			made, _ := of.(*http.Transport)
			return made
		}
		of = wrapper.WrappedRoundTripper()
	}
}

// byVerb sends reads over one transport and writes over another one.
type byVerb struct{ reads, writes http.RoundTripper }

// RoundTrip sends a request.
func (b byVerb) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Method == http.MethodGet || request.Method == http.MethodHead {
		return b.reads.RoundTrip(request)
	}
	return b.writes.RoundTrip(request)
}

// WrappedRoundTripper returns the transport of reads, which some functions of client-go look for.
func (b byVerb) WrappedRoundTripper() http.RoundTripper { return b.reads }

// CloseIdleConnections closes the idle connections.
func (b byVerb) CloseIdleConnections() {
	utilnet.CloseIdleConnectionsFor(b.reads)
	utilnet.CloseIdleConnectionsFor(b.writes)
}

// leastBusy sends each request over the transport that waits for the fewest answers: the first one of several. So while
// writes are rare, one connection is enough.
type leastBusy struct {
	over [writeConnections]http.RoundTripper
	busy [writeConnections]atomic.Int32 // the requests that wait for an answer; concurrent choices may differ by a few
}

// RoundTrip sends a request.
func (l *leastBusy) RoundTrip(request *http.Request) (*http.Response, error) {
	least := 0
	for i := range l.busy {
		if l.busy[i].Load() < l.busy[least].Load() {
			least = i
		}
	}
	l.busy[least].Add(1)
	defer l.busy[least].Add(-1)
	return l.over[least].RoundTrip(request)
}

// CloseIdleConnections closes the idle connections.
func (l *leastBusy) CloseIdleConnections() {
	for _, over := range l.over {
		utilnet.CloseIdleConnectionsFor(over)
	}
}

// dial dials a connection that sends successive writes together.
func dial(ctx context.Context, network, address string) (net.Conn, error) {
	dialed, err := dialTCP(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return newConnection(newSocket(dialed)), nil
}

// dialTCP dials with the timeout and the keep-alive period of client-go.
func dialTCP(ctx context.Context, network, address string) (net.Conn, error) {
	dialer := net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}
	return dialer.DialContext(ctx, network, address)
}
