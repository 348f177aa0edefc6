// Package faultproxy is a reverse proxy for tests. It stands in front of a real API server and
// fails as networks, load balancers and API servers do.
//
//	proxy, err := faultproxy.New(cluster.AdminConfig())
//	defer proxy.Close()
//	manager, err := controller.NewManager(proxy.Config(), scheme.Scheme, controller.Options{})
//	err = proxy.Inject(faultproxy.Fault{Action: faultproxy.Hang, Match: faultproxy.Match{Verb: "list", Resource: "pods"}})
//
// A [Fault] applies to future requests. [Proxy.Cut], [Proxy.Expire] and [Proxy.Stall] apply to open streams, and
// [Proxy.Drop] and [Proxy.Freeze] to the connections. [Proxy.Rotate] and [Proxy.Renew] replace the
// clients' token and the server's certificate. [Proxy.Heal] ends the script. Tests bypass
// the proxy for their own reads and writes, with the configuration given to New.
//
// # Guarantees
//
//   - Without faults the proxy changes only the address. Bodies pass unchanged, and each piece of a
//     watch passes at once. Clients use TLS and HTTP/2, as with an API server.
//   - The proxy listens on loopback only. Because it acts with the credentials given to New, it
//     refuses every request without the token in Config, or a certificate from [Proxy.ClientCertificate].
//   - A request held up by a fault ends with its client or with Close. Heal does not release it.
//   - Close returns when no request is being served and all connections are closed.
//
// Tests that do not need a real API server are simpler with package sourcestest, in virtual time.
package faultproxy
