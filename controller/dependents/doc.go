// Package dependents keeps the children of an object: the objects that it owns.
//
// Children are declared once. The desired state of a child is a function of its owner, and of the other
// children as they are now:
//
//	credentials := dependents.One("credentials", desiredSecret)
//	web := dependents.One("web", desiredStatefulSet).After(credentials)
//	public := dependents.One("public", desiredService).When(isPublic)
//	set, err := dependents.NewSet("hero", dependents.Options{}, credentials, web, public)
//
// The reconciler calls the set, and the controller watches its kinds:
//
//	reconcile := func(ctx context.Context, hero *v1.Hero) (controller.Result, error) {
//		outcome := set.Reconcile(ctx, client, hero)
//		...  // outcome.Condition("Ready") is a condition for the status.
//		return outcome.Result()
//	}
//	err = manager.Add("hero", controller.Typed(client, controller.TypedReconciler[*v1.Hero]{Reconcile: reconcile}),
//		append(set.Owns(), controller.For(&v1.Hero{}))...)
//
// A child is applied server-side when the dependents that it comes After are ready. Independent children
// are applied in parallel. A child that is no longer desired is deleted, and so are the children that
// come After it, in reverse order. An object that the owner does not control is neither changed nor
// deleted.
//
// A call does what can be done now and never waits: a change of a child is an event that makes another
// request. It keeps no state between calls, so the process may stop between any two writes. If nothing
// differs, nothing is sent: see [controller.Apply].
//
// # State outside of the cluster
//
// A desired state may also depend on a state outside of the cluster: a price, a DNS answer, a resource of a
// cloud. An [External] follows a stream of such states. Each change makes a request, so nothing polls. The
// example shows it.
package dependents
