package compat

import (
	"context"
	"errors"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// limits are the waits that the rate limiter of a controller sets after failures. The limiter is asked once
// for each failed attempt, as controller-runtime does.
type limits struct {
	limiter workqueue.TypedRateLimiter[reconcile.Request]

	mu    sync.Mutex
	waits map[types.NamespacedName]time.Duration // of the objects whose last attempt has failed
}

// around returns a reconciler that asks the limiter when another one fails.
func (l *limits) around(old reconcile.Reconciler) reconcile.Reconciler {
	return reconcile.Func(func(ctx context.Context, asked reconcile.Request) (reconcile.Result, error) {
		l.mu.Lock()
		delete(l.waits, asked.NamespacedName)
		l.mu.Unlock()
		result, err := old.Reconcile(ctx, asked)
		if err != nil && !errors.Is(err, reconcile.TerminalError(nil)) {
			l.ask(asked)
		}
		return result, err
	})
}

// delay returns how long an object waits after a failure. A change of its generation asks again, and gets the
// same answer.
func (l *limits) delay(object types.NamespacedName, _ int) time.Duration {
	l.mu.Lock()
	wait, known := l.waits[object]
	l.mu.Unlock()
	if !known { // The reconciler has panicked.
		wait = l.ask(reconcile.Request{NamespacedName: object})
	}
	return wait
}

// ask asks the limiter, and keeps its answer.
func (l *limits) ask(asked reconcile.Request) time.Duration {
	wait := l.limiter.When(asked)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waits[asked.NamespacedName] = wait
	return wait
}
