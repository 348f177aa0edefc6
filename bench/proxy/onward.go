package proxy

import (
	"crypto/tls"
	"net/http"

	"k8s.io/client-go/rest"
)

// onward sends requests from the proxy to the API server. It uses the contender's protocol: HTTP/2
// over one connection, or HTTP/1.1 over as many connections as there are concurrent requests. So
// the cost of the protocol at the API server counts for the contender that chose it.
type onward struct{ http1, http2 *http.Transport }

func onwardTo(config *rest.Config) (onward, error) {
	authority, err := rest.TLSConfigFor(rest.AnonymousClientConfig(config))
	if err != nil {
		return onward{}, err
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
	return onward{http1: speaking("http/1.1"), http2: speaking("h2")}, nil
}

// RoundTrip sends the request by the protocol with which it arrived.
func (o onward) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.ProtoMajor == 1 {
		return o.http1.RoundTrip(request)
	}
	return o.http2.RoundTrip(request)
}

// CloseIdleConnections closes the connections that no call uses.
func (o onward) CloseIdleConnections() {
	o.http1.CloseIdleConnections()
	o.http2.CloseIdleConnections()
}
