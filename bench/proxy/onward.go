package proxy

import (
	"crypto/tls"
	"net/http"
	"sync"
	"time"

	"k8s.io/client-go/rest"
)

// onward sends requests from the proxy to the API server. It uses the contender's protocol: HTTP/2
// over as many connections as the contender has, or HTTP/1.1 over as many as there are concurrent requests.
// So the cost of the protocol at the API server counts for the contender that chose it.
type onward struct {
	http1, http2 *http.Transport

	mu  sync.Mutex
	own map[string]*http.Transport // copies of http2, each for a connection of the contender, by its address
}

// idleFor is how long a connection to the API server stays without a request. The contender may have closed its own.
const idleFor = 30 * time.Second

func onwardTo(config *rest.Config) (*onward, error) {
	authority, err := rest.TLSConfigFor(rest.AnonymousClientConfig(config))
	if err != nil {
		return nil, err
	}
	speaking := func(protocol string) *http.Transport {
		own := authority.Clone()
		if own == nil { // The API server has no TLS.
			own = &tls.Config{MinVersion: tls.VersionTLS12}
		}
		own.NextProtos = []string{protocol}
		return &http.Transport{
			TLSClientConfig: own, ForceAttemptHTTP2: protocol == "h2",
			DisableCompression:  true, // The contender chooses the encoding of its answers.
			MaxIdleConnsPerHost: 1024, // The contender keeps its idle connections, so the proxy keeps as many.
		}
	}
	made := &onward{http1: speaking("http/1.1"), http2: speaking("h2"), own: map[string]*http.Transport{}}
	made.http2.IdleConnTimeout = idleFor
	return made, nil
}

// RoundTrip sends the request by the protocol with which it arrived.
func (o *onward) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.ProtoMajor == 1 {
		return o.http1.RoundTrip(request)
	}
	return o.ownOf(request.RemoteAddr).RoundTrip(request)
}

// ownOf returns the transport for a connection of the contender. They are kept for the round: a contender dials few.
func (o *onward) ownOf(address string) *http.Transport {
	o.mu.Lock()
	defer o.mu.Unlock()
	own := o.own[address]
	if own == nil {
		own = o.http2.Clone()
		o.own[address] = own
	}
	return own
}

// CloseIdleConnections closes the connections that no call uses.
func (o *onward) CloseIdleConnections() {
	o.http1.CloseIdleConnections()
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, own := range o.own {
		own.CloseIdleConnections()
	}
}
