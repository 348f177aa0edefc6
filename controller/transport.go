package controller

import (
	"context"
	"net"
	"net/http"
	"time"

	"github.com/bellerophon-io/bellerophon/controller/internal/election"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"
)

// dialing is the dial holder of the process for reads, and writeLines are its lines for writes. client-go shares a
// transport, and so its connections, among the clients that have the same holder.
var (
	dialing    = &transport.DialHolder{Dial: dial}
	writeLines = newLines(dial)
)

// clientFor returns client-go's HTTP client for an API server. Reads share an HTTP/2 connection, and writes have
// [writeConnections] others. All of them are a [connection]. Requests for Leases have one of their own. A configuration with
// a dialer or transport of its own keeps it, for all requests.
func clientFor(config *rest.Config) (*http.Client, error) {
	if config.Dial != nil || config.Transport != nil {
		return rest.HTTPClientFor(config)
	}
	reads, err := transportFor(config, dialing)
	if err != nil {
		return nil, err
	}
	writes, err := writesFor(config, writeLines)
	if err != nil {
		return nil, err
	}
	leases, err := transportFor(config, renewing)
	if err != nil {
		return nil, err
	}
	return &http.Client{Transport: byVerb{reads, writes, renewals{leases}}, Timeout: config.Timeout}, nil
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

// byVerb sends reads over one transport, writes over another one, and requests for Leases over a third one.
type byVerb struct{ reads, writes, leases http.RoundTripper }

// openingKey marks the context of a read that is sent over a connection for writes.
type openingKey struct{}

// opening returns a context whose read opens a connection for writes. The first write then need not wait for one, which
// takes 0.1 s while the machine or the API server is busy. A burst begins with many writes.
func opening(ctx context.Context) context.Context { return context.WithValue(ctx, openingKey{}, true) }

// RoundTrip sends a request.
func (b byVerb) RoundTrip(request *http.Request) (*http.Response, error) {
	reads := request.Method == http.MethodGet || request.Method == http.MethodHead
	switch {
	case isForLease(request):
		return b.leases.RoundTrip(request)
	case reads && request.Context().Value(openingKey{}) == nil:
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
	utilnet.CloseIdleConnectionsFor(b.leases)
}

// dial dials a connection that sends successive writes together.
func dial(ctx context.Context, network, address string) (net.Conn, error) {
	dialed, err := dialTCP(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return newConnection(newSocket(dialed)), nil
}

// silentFor is how long sent bytes may stay unacknowledged on Linux before the kernel closes the connection. HTTP/2 finds a
// dead connection by a ping after up to 45 s.
const silentFor = 5 * time.Second

// dialTCP dials with the timeout and the keep-alive period of client-go.
func dialTCP(ctx context.Context, network, address string) (net.Conn, error) {
	dialer := net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}
	dialed, err := dialer.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	_ = election.LimitUnsent(dialed, silentFor) // A kernel that refuses it leaves it to HTTP/2.
	return dialed, nil
}
