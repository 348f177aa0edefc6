// Package compat runs code that was written for controller-runtime on Bellerophon.
//
// There are two ways. [NewManager] returns a manager for a whole program: nothing else of the program
// changes, and its SetupWithManager functions are called as they are:
//
//	mgr, err := compat.NewManager(ctrl.GetConfigOrDie(), ctrl.Options{Scheme: scheme}, controller.Options{})
//	err = heroes.SetupWithManager(mgr)
//	err = mgr.Start(ctrl.SetupSignalHandler())
//
// Or one reconciler after the other moves into a program of Bellerophon. [Client] is the client for it,
// [Reconciler] runs it, and [When] and [Handler] take its predicates and event handlers:
//
//	c, err := compat.Client(manager.Client())
//	err = manager.Add("heroes", compat.Reconciler(&HeroReconciler{Client: c}),
//		controller.For(&v1.Hero{}, compat.When(predicate.GenerationChangedPredicate{})),
//		controller.Owns(&appsv1.StatefulSet{}))
//
// The package is a module of its own, so that programs without it do not get controller-runtime.
package compat
