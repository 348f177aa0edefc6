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
// [TestSource] tests a source of any kind, also one that has nothing to do with an API server.
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
// # Writes
//
// One suite of behaviours runs against this server and against a real one, and compares statuses, reasons,
// objects, managed fields and events. It covers:
//
//   - Creations, updates, deletions and deletions of collections, with selectors, preconditions,
//     generated names, finalizers, propagation policies and dry runs.
//   - JSON patches, merge patches, and strategic merge patches for the kinds of Kubernetes. As on a
//     real server, custom resources refuse the last form with code 415, even if they have a Go type.
//   - Server-side apply, with the merge of Kubernetes itself and its schema of the built-in kinds. For other
//     kinds, the metadata has a schema, maps merge, and each list is replaced as one value.
//   - The status subresource. An update or a patch that does not name the subresource leaves the status
//     unchanged, for every kind.
//
// By default, managed fields are recorded from the first apply to an object. [Options].ManagedFields
// records them from the creation, as real servers do.
//
// [Options].GarbageCollection turns on the garbage collector: in the background, in the foreground, and with
// orphans. Without it, dependents stay, and an owner deleted in the foreground waits, as in envtest.
//
// # Limits
//
// The server stores objects as they are. It does not validate, default or convert them, and it keeps unknown
// fields and empty lists. Only the result of a patch must have the types of its kind. The generation of a
// built-in kind counts changes of the spec, also where Kubernetes counts none. The server has neither admission nor permissions. Generated names are numbered, not random. Discovery lists
// the versions of a group and the kinds of a version.
//
// A client that asks for strict field validation gets it for JSON bodies of creations and updates, not for
// patches. Only kinds with a Go type have it. Other levels of validation send no warnings.
//
// The versions of a kind are stored separately. A list type that a resource definition declares with keys is still one value for an
// apply. The server does not check whether a kind is namespaced or has a status. A deletion ignores the
// grace period. A test that depends on more than that needs a real API server.
//
// # Several bubbles in one process
//
// Client-go slows down the handling of errors by the time since the last one. That time has no
// meaning between bubbles, because each has a clock of its own. To turn that off, set
// k8s.io/apimachinery/pkg/util/runtime.ErrorHandlers to nil in TestMain.
package sourcestest
