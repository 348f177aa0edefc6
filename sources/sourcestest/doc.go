// Package sourcestest is a fake API server for tests, which fails in the ways in which real
// ones and the networks before them do.
//
//	server, err := sourcestest.New(sourcestest.Options{Scheme: scheme.Scheme})
//	err = server.Create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "pegasus"}})
//	manager, err := controller.NewManager(server.Config(), scheme.Scheme, controller.Options{})
//
// The example of package controller is a whole test of a reconciler.
//
// Faults are chosen by a script ([Options].Script and [Server.Inject]), by a seed
// ([Options].Seed and Rates), or by both. The script goes first. [Server.Heal] ends them all.
// Besides, a test can break ([Server.Break]) or silence ([Server.Silence]) all open watches,
// drop the history ([Server.Compact]), remove a kind ([Server.Uninstall]), and set the server
// back as a restore of etcd does ([Server.Snapshot], [Server.Restore]).
//
// # Guarantees
//
//   - A server is a [net/http.RoundTripper] in memory: it has no goroutine and no socket, and
//     needs no Close. Whatever waits in it waits for channels and timers, so that it works in
//     a bubble of testing/synctest, in virtual time. Make it in the bubble.
//   - A request that hangs ends with its context, and a silent watch with its context or with
//     Break, and with nothing else.
//   - Without faults, each watch gets each event of its objects once, in the order of resource
//     versions, which all kinds share. Only Restore lowers them.
//   - The same seed and the same requests in the same order give the same faults. Requests to
//     different paths, and events on different watches, may come in any order among each other.
//   - The functions of [Server] that tests call (Create, Get, ...) never fail by a fault.
//
// # What it is not
//
// It stores what it is given: it validates, defaults and converts nothing, collects no garbage
// of owners, knows no admission and no permissions. It serves no discovery, and refuses
// server-side apply, strategic merge patches, dry runs and the deletion of collections. Each
// version of a kind is stored by itself. Whether a kind is namespaced is not checked. An update
// or a patch that does not name the status subresource leaves the status as it is, whatever the
// kind. What depends on more than that needs a real API server.
//
// # Several bubbles in one process
//
// client-go slows down the handling of errors by the time since the last one, which means
// nothing between bubbles: each has a clock of its own. A TestMain that sets
// k8s.io/apimachinery/pkg/util/runtime.ErrorHandlers to nil turns that off.
package sourcestest
