package controller

import (
	"context"
	"sync"
	"time"

	"github.com/bellerophon-io/bellerophon/operators"
)

// attempts knows the reconciles of one controller that run now.
type attempts struct {
	stir    func() // ends a calm
	mu      sync.Mutex
	started map[*operators.Request]time.Time
}

// counting is a reconciler whose attempts are known.
func (a *attempts) counting(reconcile operators.Reconciler) operators.Reconciler {
	return func(ctx context.Context, request operators.Request) (time.Duration, error) {
		a.stir()
		a.mu.Lock()
		a.started[&request] = time.Now()
		a.mu.Unlock()
		defer func() {
			a.mu.Lock()
			defer a.mu.Unlock()
			delete(a.started, &request)
		}()
		return reconcile(ctx, request)
	}
}

// now is how many attempts run, how long they have run together, and the longest.
func (a *attempts) now() (running int, total, longest time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, started := range a.started {
		elapsed := time.Since(started)
		total += elapsed
		longest = max(longest, elapsed)
	}
	return len(a.started), total, longest
}
