// Package sourcestest is a fake API server for tests. It fails as API servers and networks do.
//
//	server, err := sourcestest.New(sourcestest.Options{Scheme: scheme.Scheme})
//	err = server.Create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "pegasus"}})
//	manager, err := controller.NewManager(server.Config(), scheme.Scheme, controller.Options{})
//
// The example in package controller is a complete test of a reconciler.
//
// Faults are chosen by a script ([Options].Script and [Server.Inject]), by a seed ([Options].Seed
// and Rates), or by both. The script comes first. [Server.Heal] ends all faults.
//
// A test can also act on the server directly:
//
//   - [Server.Break] breaks all open watches, and [Server.Silence] silences them.
//   - [Server.Compact] drops the history.
//   - [Server.Uninstall] removes a kind.
//   - [Server.Restore] sets the server back to a [Server.Snapshot], as a restore of etcd does.
//
// # Guarantees
//
//   - A server is a [net/http.RoundTripper] in memory. It has no goroutine and no socket, and needs
//     no Close. It waits only for channels and timers, so it works in a bubble of testing/synctest,
//     in virtual time. Create it in the bubble.
//   - A request that hangs ends only with its context. A silent watch ends only with its context or
//     with Break.
//   - Without faults, each watch gets each event of its objects once, in the order of resource
//     versions, which all kinds share. Only Restore lowers the versions.
//   - The same seed and the same requests in the same order give the same faults. Requests to
//     different paths, and events on different watches, may be interleaved in any order.
//   - The functions of [Server] that tests call (Create, Get, ...) never fail because of a fault.
//
// # Limits
//
// The server stores objects as they are. It does not validate, default or convert them, does not
// collect garbage, and has neither admission nor permissions. It serves no discovery. It refuses
// server-side apply, strategic merge patches, dry runs and the deletion of collections.
//
// The versions of a kind are stored separately. The server does not check whether a kind is
// namespaced. An update or a patch that does not name the status subresource leaves the status
// unchanged, for every kind. A test that depends on more than that needs a real API server.
//
// # Several bubbles in one process
//
// Client-go slows down the handling of errors by the time since the last one. That time has no
// meaning between bubbles, because each has a clock of its own. To turn that off, set
// k8s.io/apimachinery/pkg/util/runtime.ErrorHandlers to nil in TestMain.
package sourcestest
