package controller

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// namesMachine reports whether a request names this machine by an address or as localhost. A browser sends the name of the site
// whose page it shows. If the owner of the site lets that name resolve to 127.0.0.1, the page may read the answer (DNS rebinding).
func namesMachine(request *http.Request) bool {
	host := request.Host
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	_, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return host == "localhost" || err == nil
}

// onlyByAddress refuses requests that name the machine otherwise, and requests of a page of another site. It is for servers of a loopback interface without a guard.
func onlyByAddress(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		if !namesMachine(request) {
			http.Error(w, "this server is for programs on its own machine; ask for an address, such as 127.0.0.1, or for localhost", http.StatusForbidden)
			return
		}
		if !slices.Contains([]string{"", "none", "same-origin"}, request.Header.Get("Sec-Fetch-Site")) { // A browser says whose page asks.
			http.Error(w, "a page of another site asks; this server is for programs on its own machine", http.StatusForbidden)
			return
		}
		handler.ServeHTTP(w, request)
	})
}
