package controller

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync/atomic"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/transport"
)

// renewing is the dial holder of the process for requests for Leases.
var renewing = &transport.DialHolder{Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
	dialed, err := dialTCP(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return &renewalConnection{Conn: dialed}, nil
}}

// renewalConnection is a connection for Leases.
type renewalConnection struct {
	net.Conn
	heard atomic.Pointer[time.Time] // when bytes came
}

// Read reads bytes.
func (c *renewalConnection) Read(bytes []byte) (int, error) {
	n, err := c.Conn.Read(bytes)
	if n > 0 {
		now := time.Now()
		c.heard.Store(&now)
	}
	return n, err
}

// isSilent reports whether nothing came since a time.
func (c *renewalConnection) isSilent(since time.Time) bool {
	heard := c.heard.Load()
	return heard == nil || heard.Before(since)
}

// renewals sends requests for Leases, over a connection of their own. A request that failed closes a connection over which
// nothing came meanwhile, so that the next one dials. Otherwise renewals would wait for a dead connection, and a replica
// would lose its Lease although another connection would reach the API server.
type renewals struct{ over http.RoundTripper }

// RoundTrip sends a request.
func (r renewals) RoundTrip(request *http.Request) (*http.Response, error) {
	began := time.Now()
	var used atomic.Pointer[renewalConnection]
	ctx := httptrace.WithClientTrace(request.Context(), &httptrace.ClientTrace{GotConn: func(got httptrace.GotConnInfo) {
		of := got.Conn
		if secured, is := of.(*tls.Conn); is {
			of = secured.NetConn()
		}
		if dialed, is := of.(*renewalConnection); is {
			used.Store(dialed)
		}
	}})
	answer, err := r.over.RoundTrip(request.WithContext(ctx))
	if dialed := used.Load(); err != nil && dialed != nil && dialed.isSilent(began) {
		_ = dialed.Close() // It may be closed already.
	}
	return answer, err
}

// CloseIdleConnections closes the idle connections.
func (r renewals) CloseIdleConnections() { utilnet.CloseIdleConnectionsFor(r.over) }

// isForLease reports whether a request is for Leases, and ends soon.
func isForLease(request *http.Request) bool {
	path := request.URL.Path
	return strings.Contains(path, "/apis/coordination.k8s.io/") && strings.Contains(path, "/leases") && !strings.Contains(request.URL.RawQuery, "watch=")
}
