package compat

import (
	"context"
	"errors"
	"time"

	"github.com/bellerophon-io/bellerophon/operators"
	"github.com/go-logr/logr"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// These are the waits of controller-runtime after Result.Requeue: the first one, and the longest.
const (
	firstRequeue   = 5 * time.Millisecond
	longestRequeue = 1000 * time.Second
)

// Reconciler returns a reconciler that calls one of controller-runtime. RequeueAfter, Requeue and
// reconcile.TerminalError have their effects. The context has the logger of controller-runtime, with the
// controller and the name of the object, unless it has a logger already. Result.Priority has no effect,
// and an error is retried after the backoff of the manager: see [NewManager] for rate limiters.
func Reconciler(old reconcile.Reconciler) operators.Reconciler {
	requeues := workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](firstRequeue, longestRequeue)
	return adapted(old, requeues, func(request operators.Request) logr.Logger {
		return log.Log.WithValues("controller", request.Controller, "namespace", request.Namespace, "name", request.Name)
	})
}

// adapted returns a reconciler that calls one of controller-runtime. requeues sets the wait after a
// Result.Requeue.
func adapted(old reconcile.Reconciler, requeues workqueue.TypedRateLimiter[reconcile.Request], logger func(operators.Request) logr.Logger) operators.Reconciler {
	return func(ctx context.Context, request operators.Request) (time.Duration, error) {
		if _, err := logr.FromContext(ctx); err != nil {
			ctx = log.IntoContext(ctx, logger(request))
		}
		asked := reconcile.Request{NamespacedName: request.NamespacedName}
		result, err := old.Reconcile(ctx, asked)
		switch {
		case errors.Is(err, reconcile.TerminalError(nil)):
			return 0, operators.Terminal(err)
		case err != nil:
			return 0, err
		case result.RequeueAfter > 0:
			requeues.Forget(asked)
			return result.RequeueAfter, nil
		case result.Requeue: //nolint:staticcheck // Programs still use it.
			return max(requeues.When(asked), time.Nanosecond), nil
		}
		requeues.Forget(asked)
		return 0, nil
	}
}
