package operators

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
)

// ErrTimeout is in the error of an attempt that was ended by its timeout.
var ErrTimeout = errors.New("the reconcile timed out")

// errTimeout tells our timeout from a deadline of the reconciler's own.
var errTimeout = errors.New("timeout of the attempt")

// attempt is one call of a reconciler, and the context that it gets. Most calls find
// nothing to do and never look at their context, so that the timer and what else ends
// it are made only when somebody does.
type attempt struct {
	parent  context.Context // It is a context itself.
	timeout time.Duration
	result  Result

	mu     sync.Mutex
	inner  context.Context // nil until somebody looks
	cancel func()
	ended  bool
	writes []Write
}

func newAttempt(ctx context.Context, timeout time.Duration, task *task) *attempt {
	started := time.Now()
	return &attempt{parent: ctx, timeout: timeout, result: Result{
		Request: task.request,
		Attempt: task.failures + 1,
		Started: started,
		Queued:  started.Sub(task.queuedAt),
	}}
}

// run calls the reconciler, once, and returns when it ended.
func (a *attempt) run(reconcile Reconciler) time.Time {
	err := lifecycle.Guard(func() (err error) {
		a.result.RequeueAfter, err = reconcile(a, a.result.Request)
		return err
	})
	now := time.Now()
	a.result.Duration = now.Sub(a.result.Started)
	if err != nil && a.timedOut() {
		err = fmt.Errorf("%w after %v: %w", ErrTimeout, a.timeout, err)
	}
	a.result.Err = err
	a.end()
	if a.result.Outcome = outcomeOf(&a.result); a.result.Outcome != Requeued {
		a.result.RequeueAfter = 0 // An error may have come with one.
	}
	return now
}

func (a *attempt) timedOut() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.inner == nil {
		return a.result.Duration >= a.timeout
	}
	return errors.Is(context.Cause(a.inner), errTimeout)
}

// end ends the context, and takes what was written.
func (a *attempt) end() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ended = true
	a.result.Writes = a.writes
	if a.cancel != nil {
		a.cancel()
	}
}

// context is the context that this one stands for. Others that are derived from this one
// hang on it directly: they find it by Value and know it by Done.
func (a *attempt) context() context.Context {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.inner == nil {
		a.inner, a.cancel = context.WithDeadlineCause(a.parent, a.result.Started.Add(a.timeout), errTimeout)
		if a.ended {
			a.cancel()
		}
	}
	return a.inner
}

// Deadline implements context.Context.
func (a *attempt) Deadline() (time.Time, bool) { return a.context().Deadline() }

// Done implements context.Context.
func (a *attempt) Done() <-chan struct{} { return a.context().Done() }

// Err implements context.Context.
func (a *attempt) Err() error { return a.context().Err() }

// Value implements context.Context.
func (a *attempt) Value(key any) any {
	if _, ours := key.(attemptKey); ours {
		return a
	}
	return a.context().Value(key)
}

type attemptKey struct{}

func attemptOf(ctx context.Context) *attempt {
	found, _ := ctx.Value(attemptKey{}).(*attempt)
	return found
}

// RecordWrite adds a write to the result of the attempt that ctx belongs to. Clients
// call it after each write that succeeded, from any goroutine. Without an attempt, or
// after its end, it does nothing.
func RecordWrite(ctx context.Context, write Write) {
	current := attemptOf(ctx)
	if current == nil {
		return
	}
	current.mu.Lock()
	defer current.mu.Unlock()
	if !current.ended {
		current.writes = append(current.writes, write)
	}
}

// RequestOf is the request of the attempt that ctx belongs to, if it belongs to one.
func RequestOf(ctx context.Context) (Request, bool) {
	current := attemptOf(ctx)
	if current == nil {
		return Request{}, false
	}
	return current.result.Request, true
}

// unknown is the reconciler of a controller that there is not.
func unknown(name string) Reconciler {
	return func(context.Context, Request) (time.Duration, error) {
		return 0, Terminal(fmt.Errorf("there is no controller of the name %q", name))
	}
}
