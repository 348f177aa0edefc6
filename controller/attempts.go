package controller

import (
	"context"
	"sync"
	"time"

	"github.com/bellerophon-io/bellerophon/controller/pipeline"
	"github.com/bellerophon-io/bellerophon/operators"
)

// attempts knows the reconciles of one controller that run now.
type attempts struct {
	stir    func() // ends a calm
	mu      sync.Mutex
	started map[*operators.Request]time.Time
	untold  int           // attempts that have begun, whose result has not been told yet
	closed  bool          // no further attempt begins
	idle    chan struct{} // is closed when closed and nothing is untold
}

func newAttempts(stir func()) *attempts {
	return &attempts{stir: stir, started: map[*operators.Request]time.Time{}, idle: make(chan struct{})}
}

// counting is a reconciler whose attempts are known.
func (a *attempts) counting(reconcile operators.Reconciler) operators.Reconciler {
	return func(ctx context.Context, request operators.Request) (time.Duration, error) {
		a.stir()
		if !a.begin(&request) {
			return 0, operators.Terminal(pipeline.ErrRemoved)
		}
		defer a.end(&request)
		return reconcile(ctx, request)
	}
}

func (a *attempts) begin(request *operators.Request) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return false
	}
	a.started[request] = time.Now()
	a.untold++
	return true
}

func (a *attempts) end(request *operators.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.started, request)
}

// told notes that the result of an attempt that had begun was told.
func (a *attempts) told() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.untold--
	a.closeIdle()
}

// close lets no further attempt begin. The channel is closed when the result of the last one
// has been told.
func (a *attempts) close() (idle <-chan struct{}) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.closed = true
	a.closeIdle()
	return a.idle
}

func (a *attempts) closeIdle() {
	if a.closed && a.untold == 0 {
		close(a.idle)
	}
}

// inFlight is how many attempts have begun whose result has not been told yet.
func (a *attempts) inFlight() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.untold
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
