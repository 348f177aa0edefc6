// Package controller runs controllers, with their pipeline, as a process.
//
// A [Manager] has one pipeline for all its controllers:
//
// sources ─► debounce ─► your stages ─► cache ─► trigger ─► reconcile ─► results ─► metrics, logs
//
// A controller consists of a name, a reconciler and the kinds that it watches:
//
//	manager, err := controller.NewManager(config, scheme, controller.Options{})
//	err = manager.Add("hero", reconcile,
//		controller.For(&v1.Hero{}, controller.Plural("heroes")),
//		controller.Owns(&appsv1.StatefulSet{}))
//	err = manager.Run(ctx)
//
// Controllers may be added and removed while the manager runs. They share watches: a watch lasts from
// the first controller that needs its kind to the last.
//
// Reconcilers read from the cache and write through the manager's [Client].
package controller
