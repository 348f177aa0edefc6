package connection

import (
	"fmt"
	"net/http"

	"k8s.io/client-go/rest"
)

// HTTP1 returns a copy of a client configuration that speaks HTTP/1.1. Each request in flight then has a
// connection of its own. A connection without a request is kept for the next one. client-go would keep 25
// of them, and dial others again.
//
// The configuration must not have a transport of its own.
func HTTP1(config *rest.Config) (*rest.Config, error) {
	secure, err := rest.TLSConfigFor(config)
	if err != nil {
		return nil, fmt.Errorf("read the TLS settings for %s: %w", config.Host, err)
	}
	only := new(http.Protocols)
	only.SetHTTP1(true)
	config = rest.CopyConfig(config)
	config.Transport = &http.Transport{TLSClientConfig: secure, Protocols: only, MaxIdleConnsPerHost: mostIdle, DialContext: config.Dial}
	config.TLSClientConfig = rest.TLSClientConfig{} // Not allowed beside a transport.
	config.Dial = nil
	return config, nil
}

// mostIdle is the number of connections without a request that are kept.
const mostIdle = 1024
