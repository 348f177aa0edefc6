package controller

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"
)

const (
	// mostIdle is the number of connections for writes that are kept for the next ones. client-go keeps 25, and dials
	// others again: 32 workers that write three children each would mostly shake hands.
	mostIdle = 1024

	// idleFor is how long a connection for writes is kept without a write. An API server closes one after 90 s, and
	// many load balancers do so after 60 s. A write that meets the close fails, so it has to come long before.
	idleFor = 10 * time.Second

	// answerWithin is how long a write waits for the head of its answer. An API server ends each request after 60 s
	// (--request-timeout). HTTP/1.1 has no pings, which would show that a server hangs.
	answerWithin = 65 * time.Second
)

// dialing is the one dial holder of the process. client-go shares a transport, and so its connections, among the
// clients that have the same holder and the same settings.
var dialing = &transport.DialHolder{Dial: dial}

// clientFor returns client-go's HTTP client for an API server. Reads share one HTTP/2 connection. Writes use
// HTTP/1.1, where each write in flight has a connection of its own: docs/decisions.md has the
// numbers. A configuration with a dialer, a transport or protocols of its own keeps them, for all requests.
//
// A credential plugin closes the connections of a certificate that it replaces. It finds them by
// wrapping the dialer of the configuration, so the dialer must be set first. Such a transport is not
// shared. Changed certificate files need nothing here, because the transport wraps any dialer.
func clientFor(config *rest.Config) (*http.Client, error) {
	if config.Dial != nil || config.Transport != nil {
		return rest.HTTPClientFor(config)
	}
	reads, err := transportFor(config, dialing)
	if err != nil || len(config.NextProtos) > 0 {
		return &http.Client{Transport: reads, Timeout: config.Timeout}, err
	}
	writes, err := writesFor(config, dialing)
	if err != nil {
		return nil, err
	}
	return &http.Client{Transport: byVerb{reads, writes}, Timeout: config.Timeout}, nil
}

// transportFor returns client-go's transport for an API server, with a dialer.
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

// configuring is held while the limits of a transport are read or set: client-go may give it to several managers.
var configuring sync.Mutex

// writesFor returns a transport for the writes to an API server, with a dialer.
func writesFor(config *rest.Config, holder *transport.DialHolder) (http.RoundTripper, error) {
	config = rest.CopyConfig(config)
	config.NextProtos = []string{"http/1.1"}
	made, err := transportFor(config, holder)
	if err != nil {
		return nil, err
	}
	configuring.Lock()
	defer configuring.Unlock()
	if of := innermost(made); of != nil && of.MaxIdleConnsPerHost != mostIdle { // Otherwise it may be in use.
		of.MaxIdleConnsPerHost, of.IdleConnTimeout, of.ResponseHeaderTimeout = mostIdle, idleFor, answerWithin
	}
	return plainEnds{made}, nil
}

// plainEnds is a transport whose requests fail with the error of their context when it ends, as over HTTP/2. Over HTTP/1.1,
// net/http fails with the cause instead, and callers do not recognize it as a timeout.
type plainEnds struct{ http.RoundTripper }

// WrappedRoundTripper returns the transport behind this one.
func (p plainEnds) WrappedRoundTripper() http.RoundTripper { return p.RoundTripper }

// RoundTrip sends a request.
func (p plainEnds) RoundTrip(request *http.Request) (*http.Response, error) {
	answer, err := p.RoundTripper.RoundTrip(request)
	if err != nil {
		return nil, plainEnd(request.Context(), err)
	}
	answer.Body = plainBody{answer.Body, request.Context()}
	return answer, nil
}

// plainBody is the body of an answer, whose reads fail with the error of the context when it ends.
type plainBody struct {
	io.ReadCloser
	ctx context.Context
}

// Read reads from the body.
func (b plainBody) Read(into []byte) (int, error) {
	n, err := b.ReadCloser.Read(into)
	if err != nil && !errors.Is(err, io.EOF) {
		err = plainEnd(b.ctx, err)
	}
	return n, err
}

// plainEnd returns the error of a context that has ended, or else the given one.
func plainEnd(ctx context.Context, err error) error {
	if ended := ctx.Err(); ended != nil {
		return ended
	}
	return err
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

// dial dials a connection as a [socket].
func dial(ctx context.Context, network, address string) (net.Conn, error) {
	dialed, err := dialTCP(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return newSocket(dialed), nil
}

// dialTCP dials with the timeout and the keep-alive period of client-go.
func dialTCP(ctx context.Context, network, address string) (net.Conn, error) {
	dialer := net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}
	return dialer.DialContext(ctx, network, address)
}
