package proxy

import (
	"crypto/tls"
	"net/http"

	"k8s.io/client-go/rest"
)

// onward is the way from the proxy to the API server. It speaks what the contender speaks:
// HTTP/2 over one connection, or HTTP/1.1 over as many as there are requests at a time. What
// the one or the other costs the API server is the contender's to answer for.
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
			DisableCompression:  true, // Answers pass as the contender wants them.
			MaxIdleConnsPerHost: 1024, // A contender's connections stay; so do those that they stand for.
		}
	}
	return onward{http1: speaking("http/1.1"), http2: speaking("h2")}, nil
}

// RoundTrip sends a request on, by the protocol that it came with.
func (o onward) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.ProtoMajor == 1 {
		return o.http1.RoundTrip(request)
	}
	return o.http2.RoundTrip(request)
}

// CloseIdleConnections closes those that no call uses.
func (o onward) CloseIdleConnections() {
	o.http1.CloseIdleConnections()
	o.http2.CloseIdleConnections()
}
