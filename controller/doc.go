// Package controller runs controllers, with their pipeline, as a process.
//
// A [Manager] has one pipeline for all its controllers. The picture is in ARCHITECTURE.md.
//
// A controller consists of a name, a reconciler and the kinds that it watches:
//
//	manager, err := controller.NewManager(config, scheme, controller.Options{})
//	err = manager.Add("hero",
//		controller.Typed(manager.Client(), controller.TypedReconciler[*v1.Hero]{Reconcile: reconcile}),
//		controller.For(&v1.Hero{}),
//		controller.Owns(&appsv1.StatefulSet{}))
//	err = manager.Run(ctx)
//
// Controllers may be added and removed while the manager runs. They share watches: a watch lasts from
// the first controller that needs its kind to the last.
//
// # Kinds
//
// [For], [Owns] and [Watches] name the kinds whose changes make requests, with a map function such as [Map]
// or [MapChange], and predicates such as [GenerationChanged]. [Uses] names a kind that is read live and never cached.
// [OnDemand] restricts a watch to the times of a [Claim]. [IfServed] lets a controller stand by until its
// kinds are served. [Metadata] and [Project] keep less of each object in memory.
//
// # Reads and writes
//
// Reconcilers read and write through the manager's [Client], with functions such as [Get], [List], [Create],
// [Apply], [Patch] and [Delete]. Reads of watched kinds come from the cache and see every own write. [GetLive]
// and [ListLive] ask the API server. [CreateSubresource] writes tokens, bindings and other bodies, and
// [RecordWrite] shows the cache a write of another client.
//
// # Ownership and status
//
// [SetControllerReference] makes one object own another, and [Apply] then takes no object over that its
// controller did not make. [Finalizer] cleans up before an object goes.
// [SetConditions] sets conditions of a status.
//
// # Operation
//
// [Options] has the addresses of metrics and probes, and [Protection] says who may read them. [Logger] returns
// the logger of a reconcile. [PausedBy] leaves objects alone. [Runnable] is work of your own that starts and
// ends with the manager. [MaxConcurrentReconciles], [ReconcileTimeout], [RetryBackoff] and [Resync] are limits
// of one controller. [LeaderElection] lets one of several replicas act, and [EveryReplica] excepts a controller.
//
// # Around this package
//
//   - dependents keeps the children of an object, in order, and plans runs procedures on them.
//   - webhook serves validation, defaults and conversion.
//   - controllertest runs a real control plane for tests; sources/sourcestest is a fake one in virtual time.
//   - compat, a module, runs code that was written for controller-runtime.
//   - tracing, a module, makes OpenTelemetry traces.
//   - examples has programs to copy.
package controller
