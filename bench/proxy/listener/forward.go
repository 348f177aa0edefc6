package listener

import (
	"fmt"
	"net/http"
	"net/http/httputil"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/rest"
)

// Forward opens a listener in front of the API server of a config. It completes a forwarder that has a
// transport, so that it sends requests to that server. It calls serve for each request, with what the
// request is about. serve calls the forwarder, unless it answers by itself. Close also closes the idle
// connections of the transport.
func Forward(config *rest.Config, forwarder *httputil.ReverseProxy, serve func(http.ResponseWriter, *http.Request, *request.RequestInfo)) (*Listener, error) {
	target, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, fmt.Errorf("reading the address of the API server: %w", err)
	}
	rewrite := forwarder.Rewrite
	forwarder.Rewrite = func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		if rewrite != nil {
			rewrite(r)
		}
	}
	forwarder.ErrorLog = quiet
	opened, err := Open(func(w http.ResponseWriter, r *http.Request) {
		info, err := InfoOf(r)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		serve(w, r, info)
	})
	if err != nil {
		return nil, err
	}
	opened.idle = func() { utilnet.CloseIdleConnectionsFor(forwarder.Transport) }
	return opened, nil
}
