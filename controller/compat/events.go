package compat

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/sources"
	"github.com/bellerophon-io/bellerophon/streams"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// When returns an option for For, Owns and Watches: a change makes requests only if all predicates are true
// for it. Objects of a list are creations with IsInInitialList set. A change that repeats a
// known state is no event, and makes no requests.
func When(predicates ...predicate.Predicate) controller.InputOption {
	return controller.When(func(change streams.Change) bool {
		passes := false
		visit(controller.ChangeOf[streams.Object]{Old: change.Old, New: change.New, Causes: change.Causes}, observer{
			created: func(made event.CreateEvent) { passes = passes || allow(predicates, made, predicate.Predicate.Create) },
			updated: func(made event.UpdateEvent) { passes = passes || allow(predicates, made, predicate.Predicate.Update) },
			deleted: func(made event.DeleteEvent) { passes = passes || allow(predicates, made, predicate.Predicate.Delete) },
		})
		return passes
	})
}

// Handler returns an option for Watches, and also for For and Owns: an event handler makes the requests.
// The handler gets the events for which all predicates are true. It must be fast, and safe for use by
// many goroutines.
//
// A handler that uses AddAfter or AddRateLimited of its queue fails with an error that names the way out:
// a rule of Bellerophon makes requests at once. [NewManager] supports such handlers.
func Handler(by handler.EventHandler, predicates ...predicate.Predicate) controller.InputOption {
	return controller.MapChange(func(ctx context.Context, _ *controller.Client, change controller.ChangeOf[streams.Object]) []types.NamespacedName {
		queue := &requests{}
		visit(change, observer{
			created: func(made event.CreateEvent) {
				if allow(predicates, made, predicate.Predicate.Create) {
					by.Create(ctx, made, queue)
				}
			},
			updated: func(made event.UpdateEvent) {
				if allow(predicates, made, predicate.Predicate.Update) {
					by.Update(ctx, made, queue)
				}
			},
			deleted: func(made event.DeleteEvent) {
				if allow(predicates, made, predicate.Predicate.Delete) {
					by.Delete(ctx, made, queue)
				}
			},
		})
		return queue.names
	})
}

// Events returns the requests that generic events make, as the source of a channel in controller-runtime
// does. Give them to a controller with controller.From. The handler is as for [Handler].
func Events(channel <-chan event.GenericEvent, by handler.EventHandler, predicates ...predicate.Predicate) streams.Stream[types.NamespacedName] {
	return streams.MapOnReceive(sources.Channel(channel), func(batch []event.GenericEvent) ([]types.NamespacedName, error) {
		queue := &requests{}
		for _, made := range batch {
			if allow(predicates, made, predicate.Predicate.Generic) {
				by.Generic(context.Background(), made, queue)
			}
		}
		return queue.names, nil
	})
}

// allow reports whether all predicates are true for an event.
func allow[E any](predicates []predicate.Predicate, made E, ask func(predicate.Predicate, E) bool) bool {
	for _, predicate := range predicates {
		if !ask(predicate, made) {
			return false
		}
	}
	return true
}

// observer has a function for each type of event.
type observer struct {
	created func(event.CreateEvent)
	updated func(event.UpdateEvent)
	deleted func(event.DeleteEvent)
}

// visit calls the function for each event that a change stands for.
func visit(change controller.ChangeOf[streams.Object], to observer) {
	before, after := change.Old, change.New
	switch {
	case before != nil && after != nil && before.GetUID() == after.GetUID():
		if version := after.GetResourceVersion(); version == "" || version != before.GetResourceVersion() {
			to.updated(event.UpdateEvent{ObjectOld: before, ObjectNew: after})
		}
		return
	case before != nil:
		to.deleted(event.DeleteEvent{Object: before})
	}
	if after != nil {
		to.created(event.CreateEvent{Object: after, IsInInitialList: isListed(change)})
	}
}

// isListed reports whether the object of a change came with a list.
func isListed(change controller.ChangeOf[streams.Object]) bool {
	return slices.ContainsFunc(change.Causes, func(cause streams.Cause) bool { return cause.Type == streams.Listed })
}

// requests is a queue that collects the requests that a handler makes while it is called.
type requests struct{ names []types.NamespacedName }

var _ workqueue.TypedRateLimitingInterface[reconcile.Request] = &requests{}

// errDelayed is the error for a handler whose requests are not made at once.
var errDelayed = errors.New("the event handler makes a delayed request, which a rule cannot make; " +
	"return RequeueAfter from the reconciler, or use compat.NewManager")

// Add collects a request.
func (r *requests) Add(request reconcile.Request) { r.names = append(r.names, request.NamespacedName) }

// AddAfter panics unless the delay is 0. The manager reports the panic as the failure of a map function.
func (r *requests) AddAfter(request reconcile.Request, delay time.Duration) {
	if delay > 0 {
		panic(fmt.Errorf("%s: %w", request.NamespacedName, errDelayed))
	}
	r.Add(request)
}

// AddRateLimited panics as AddAfter does.
func (r *requests) AddRateLimited(request reconcile.Request) { r.AddAfter(request, firstRequeue) }

// Len returns the number of requests.
func (r *requests) Len() int { return len(r.names) }

// Get reports that the queue is shut down: the manager takes the requests.
func (r *requests) Get() (request reconcile.Request, shutdown bool) { return request, true }

// Done does nothing.
func (r *requests) Done(reconcile.Request) {}

// Forget does nothing.
func (r *requests) Forget(reconcile.Request) {}

// NumRequeues returns 0.
func (r *requests) NumRequeues(reconcile.Request) int { return 0 }

// ShutDown does nothing.
func (r *requests) ShutDown() {}

// ShutDownWithDrain does nothing.
func (r *requests) ShutDownWithDrain() {}

// ShuttingDown returns false.
func (r *requests) ShuttingDown() bool { return false }
