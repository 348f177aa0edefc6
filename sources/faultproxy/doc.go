// Package faultproxy is a reverse proxy for tests that stands in front of a real API server
// and fails in the ways in which networks, load balancers and API servers fail.
//
//	proxy, err := faultproxy.New(cluster.AdminConfig())
//	defer proxy.Close()
//	manager, err := controller.NewManager(proxy.Config(), scheme.Scheme, controller.Options{})
//	err = proxy.Inject(faultproxy.Fault{Action: faultproxy.Hang, Match: faultproxy.Match{Verb: "list", Resource: "pods"}})
//
// A [Fault] strikes requests that are still to come. [Proxy.Cut] and [Proxy.Stall] strike
// streams that are open, [Proxy.Drop] and [Proxy.Freeze] the connections. [Proxy.Heal] ends
// the script. Tests write and read past the proxy, with the configuration that it was given.
//
// # Guarantees
//
//   - Without faults it changes nothing but the address: bodies pass byte by byte, and each
//     piece of a watch at once. Clients use TLS and HTTP/2, as with an API server.
//   - It listens on loopback only. Config has a token without which every request is refused,
//     because the proxy acts with the credentials that it was given.
//   - A request that a fault holds up ends with its client or with Close. Heal does not
//     release it.
//   - Close returns when no request is being served and all connections are closed.
//
// A test without a real API server is simpler with package sourcestest, in virtual time.
package faultproxy
