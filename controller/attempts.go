package controller

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/bellerophon-io/bellerophon/controller/introspection"
	"github.com/bellerophon-io/bellerophon/controller/pipeline"
	"github.com/bellerophon-io/bellerophon/operators"
	"k8s.io/apimachinery/pkg/types"
)

// attempts tracks the attempts of one controller that are running, or whose results are pending.
type attempts struct {
	mu        sync.Mutex
	started   map[*operators.Request]time.Time // when each running attempt began
	unhandled int                              // attempts that began and whose result is not handled yet
	ended     int64                            // attempts whose result is handled
	failed    int64                            // some of them: they failed
	wrote     int64                            // writes of them that succeeded
	moved     time.Time                        // when an attempt last began or ended
	closed    bool                             // no further attempt begins
	idle      chan struct{}                    // closed once closed is set and unhandled is 0
}

func newAttempts() *attempts {
	return &attempts{started: map[*operators.Request]time.Time{}, idle: make(chan struct{})}
}

// tracked returns a reconciler whose attempts are tracked. After close, its attempts fail with
// pipeline.ErrRemoved.
func (a *attempts) tracked(reconcile operators.Reconciler) operators.Reconciler {
	return func(ctx context.Context, request operators.Request) (time.Duration, error) {
		if !a.begin(&request) {
			return 0, operators.Terminal(pipeline.ErrRemoved)
		}
		defer a.end(&request)
		return reconcile(ctx, request)
	}
}

// begin records that an attempt begins, and returns false if it must not.
func (a *attempts) begin(request *operators.Request) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return false
	}
	a.moved = time.Now()
	a.started[request] = a.moved
	a.unhandled++
	return true
}

// end records that the reconciler has returned.
func (a *attempts) end(request *operators.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.started, request)
	a.moved = time.Now()
}

// stuck returns the attempt that has run the longest, if no attempt has begun or ended for the given time.
func (a *attempts) stuck(still time.Duration) (request *operators.Request, since time.Duration, found bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.started) == 0 || time.Since(a.moved) < still {
		return nil, 0, false
	}
	for candidate, started := range a.started {
		if elapsed := time.Since(started); request == nil || elapsed > since {
			request, since = candidate, elapsed
		}
	}
	return request, since, true
}

// handled records that the result of an attempt was handled, which failed or not, and the number of its writes. Attempts that did not begin do not count.
func (a *attempts) handled(failed bool, writes int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ended++
	if failed {
		a.failed++
	}
	a.wrote += int64(writes)
	a.unhandled--
	a.closeIdle()
}

// close prevents further attempts. The returned channel is closed when the result of the last attempt
// has been handled.
func (a *attempts) close() (idle <-chan struct{}) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.closed = true
	a.closeIdle()
	return a.idle
}

// closeIdle closes idle if it is time. The caller holds a.mu.
func (a *attempts) closeIdle() {
	if a.closed && a.unhandled == 0 {
		close(a.idle)
	}
}

// inFlight returns the number of attempts that began and whose result is not handled yet.
func (a *attempts) inFlight() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.unhandled
}

// counts returns the number of attempts whose result is handled, of the ones among them that failed, and of their writes.
func (a *attempts) counts() (ended, failed, wrote int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.ended, a.failed, a.wrote
}

// list returns the attempts that are running, the longest first.
func (a *attempts) list() (running []introspection.Attempt) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for request, started := range a.started {
		running = append(running, introspection.Attempt{Key: request.NamespacedName.String(), Since: started.UTC()})
	}
	slices.SortFunc(running, func(one, other introspection.Attempt) int {
		return cmp.Or(one.Since.Compare(other.Since), strings.Compare(one.Key, other.Key))
	})
	return running
}

// since returns when the attempt for an object began that is running, or nil.
func (a *attempts) since(object types.NamespacedName) *time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	for request, started := range a.started {
		if request.NamespacedName == object {
			return new(started.UTC())
		}
	}
	return nil
}

// now returns the number of running attempts, the sum of their durations so far, and the longest one.
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
