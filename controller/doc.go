// Package controller assembles pipelines into a running process.
//
// A [Manager] has one pipeline for all its controllers:
//
//	watches ─► Merge ─► Debounce ─► cache ─► Trigger ─► Reconcile ─► results ─► metrics
//
// A controller is a name, a reconciler and what it watches:
//
//	manager, err := controller.NewManager(config, scheme, controller.Options{})
//	err = manager.Add("hero", reconcile,
//		controller.For(&v1.Hero{}, controller.Plural("heroes")),
//		controller.Owns(&appsv1.StatefulSet{}))
//	err = manager.Run(ctx)
//
// Reconcilers read from the cache and write through the manager's [Client].
package controller
