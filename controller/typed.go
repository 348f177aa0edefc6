package controller

import (
	"context"
	"reflect"
	"time"

	"github.com/bellerophon-io/bellerophon/operators"
	"github.com/bellerophon-io/bellerophon/sources"
	"github.com/bellerophon-io/bellerophon/streams"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
)

// Result says when a typed reconciler wants to be called again although no event asks for it. The zero
// Result does not ask for another call.
type Result struct {
	RequeueAfter time.Duration // another call after this time, unless an event asks for one earlier
	Requeue      bool          // another call soon, after [RequeueSoon]; for a call after a backoff, return an error
}

// RequeueSoon is the delay of Result.Requeue. A shorter one would let a reconciler that always asks again
// use all of a processor.
const RequeueSoon = 100 * time.Millisecond

// after returns the delay that the result asks for, or 0.
func (r Result) after() time.Duration {
	if r.Requeue && (r.RequeueAfter == 0 || r.RequeueAfter > RequeueSoon) {
		return RequeueSoon
	}
	return r.RequeueAfter
}

// TypedReconciler reconciles objects of type T, which it gets instead of their names. The objects belong
// to the cache and must not be changed. Only Reconcile is required.
type TypedReconciler[T streams.Object] struct {
	// Reconcile is called for an object that exists and is not being deleted.
	Reconcile func(ctx context.Context, object T) (Result, error)

	// Deleting, if set, is called for an object with a deletion timestamp, as long as it has
	// finalizers. See also [Finalizer].
	Deleting func(ctx context.Context, object T) (Result, error)

	// Gone, if set, is called for an object that does not exist. It may be called several times.
	Gone func(ctx context.Context, name types.NamespacedName) (Result, error)
}

// Typed returns a reconciler that calls the functions of a typed one with the object that the cache holds.
// The request, with its causes, is in the context: see [operators.RequestOf].
//
//	manager.Add("heroes", controller.Typed(client, controller.TypedReconciler[*v1.Hero]{Reconcile: reconcile}),
//		controller.For(&v1.Hero{}))
//
// It panics if Reconcile is not set.
func Typed[T streams.Object](c *Client, typed TypedReconciler[T]) operators.Reconciler {
	if typed.Reconcile == nil {
		panic("controller: a TypedReconciler has no Reconcile; set it")
	}
	return func(ctx context.Context, request operators.Request) (time.Duration, error) {
		var options []ReadOption
		if member := c.manager.memberOf(ctx); member != nil && member.reconciled != nil && sources.NamesItsKind(reflect.TypeFor[T]()) {
			options = append(options, OfKind(member.reconciled.kind.GroupVersionKind))
		}
		object, err := Get[T](ctx, c, request.NamespacedName, options...)
		var result Result
		switch {
		case apierrors.IsNotFound(err):
			if err = nil; typed.Gone != nil {
				result, err = typed.Gone(ctx, request.NamespacedName)
			}
		case err != nil:
		case object.GetDeletionTimestamp() == nil:
			result, err = typed.Reconcile(ctx, object)
		case typed.Deleting != nil:
			result, err = typed.Deleting(ctx, object)
		}
		return result.after(), err
	}
}
