package operators

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
)

// ErrTimeout is wrapped by the error of an attempt that its timeout ended.
var ErrTimeout = errors.New("the reconcile timed out")

// ErrExited is the error of an attempt that ended its goroutine with [runtime.Goexit], as FailNow
// of package testing does. Like a panic, it fails this attempt alone.
var ErrExited = errors.New("the reconciler called runtime.Goexit")

// errTimeout distinguishes the timeout of an attempt from a deadline of the reconciler's own.
var errTimeout = errors.New("timeout of the attempt")

// attempt is one call of a reconciler, and the context that the call gets. Most calls find nothing
// to do and never look at their context. So the timer, and what else ends the context, is created
// on first use.
type attempt struct {
	parent  context.Context // kept in a struct because attempt is a context itself
	timeout time.Duration
	started time.Time
	request Request
	task    *task // only fields that do not change during an attempt may be read

	mu    sync.Mutex
	ended bool
	use   *attemptUse // nil until the context is used or a write is recorded; most attempts do neither
}

// attemptUse is the part of an attempt that only some attempts need.
type attemptUse struct {
	inner  context.Context // nil until first use
	cancel func()
	writes []Write
	calls  []Call
	reads  []Read
	unread int // reads that are left out of reads
}

// used returns the part of the attempt that only some attempts need. The caller holds the lock.
func (a *attempt) used() *attemptUse {
	if a.use == nil {
		a.use = &attemptUse{}
	}
	return a.use
}

// newAttempt creates the attempt for a task that was started at a time.
func newAttempt(ctx context.Context, task *task, timeout time.Duration, started time.Time) *attempt {
	return &attempt{parent: ctx, timeout: timeout, started: started, request: task.request, task: task}
}

// call calls the reconciler, once. It does not return if the reconciler ends its goroutine.
func (a *attempt) call() (requeueAfter time.Duration, err error) {
	panicked := lifecycle.Guard(func() error {
		requeueAfter, err = a.task.controller.Reconcile(a, a.request)
		return nil
	})
	if panicked != nil {
		err = panicked
	}
	return requeueAfter, err
}

// conclude ends the attempt. It returns the result, and when the attempt ended.
func (a *attempt) conclude(requeueAfter time.Duration, err error) (Result, time.Time) {
	ended := time.Now()
	result := Result{
		Request:      a.request,
		Attempt:      a.task.failures + 1,
		Started:      a.started,
		Queued:       a.queued(),
		Duration:     ended.Sub(a.started),
		RequeueAfter: requeueAfter,
		Err:          err,
	}
	if result.Err != nil && a.timedOut(result.Duration) {
		result.Err = fmt.Errorf("%w after %v: %w", ErrTimeout, a.timeout, result.Err)
	}
	a.end(&result)
	if result.Outcome = outcomeOf(&result); result.Outcome != Requeued {
		result.RequeueAfter = 0 // A reconciler may return one with an error.
	}
	return result, ended
}

// queued returns how long the attempt was ready to run before it started.
func (a *attempt) queued() time.Duration { return a.started.Sub(a.task.queuedAt) }

// timedOut reports whether the timeout ended the attempt.
func (a *attempt) timedOut(after time.Duration) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.use == nil || a.use.inner == nil {
		return after >= a.timeout
	}
	return errors.Is(context.Cause(a.use.inner), errTimeout)
}

// end ends the context, and adds what the attempt has read and asked of the API server to its result.
func (a *attempt) end(result *Result) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ended = true
	if a.use == nil {
		return
	}
	if a.use.cancel != nil {
		a.use.cancel()
	}
	result.Writes, result.Calls, result.Reads, result.ReadsLeftOut = a.use.writes, a.use.calls, a.use.reads, a.use.unread
}

// context returns the context behind the attempt, which it creates on first use. Contexts that are
// derived from the attempt become children of that context: they find it by Value, and recognize it
// by Done.
func (a *attempt) context() context.Context {
	a.mu.Lock()
	defer a.mu.Unlock()
	use := a.used()
	if use.inner == nil {
		use.inner, use.cancel = context.WithDeadlineCause(a.parent, a.started.Add(a.timeout), errTimeout)
		if a.ended {
			use.cancel()
		}
	}
	return use.inner
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

// attemptOf returns the attempt that ctx belongs to, or nil.
func attemptOf(ctx context.Context) *attempt {
	found, _ := ctx.Value(attemptKey{}).(*attempt)
	return found
}

// RecordWrite adds a write to the result of the attempt that ctx belongs to. Clients call it after
// each write that succeeded, from any goroutine. Without an attempt, or after its end, it does
// nothing.
func RecordWrite(ctx context.Context, write Write) {
	current := attemptOf(ctx)
	if current == nil {
		return
	}
	current.mu.Lock()
	defer current.mu.Unlock()
	if !current.ended {
		write.Answered = time.Now()
		use := current.used()
		use.writes = append(use.writes, write)
	}
}

// maxCalls bounds the calls of an attempt that are recorded.
const maxCalls = 32

// RecordCall adds a request to the result of the attempt that ctx belongs to. Transports call it, from any goroutine.
// Without an attempt, or after its end, it does nothing.
func RecordCall(ctx context.Context, call Call) {
	current := attemptOf(ctx)
	if current == nil {
		return
	}
	current.mu.Lock()
	defer current.mu.Unlock()
	if use := current.used(); !current.ended && len(use.calls) < maxCalls {
		use.calls = append(use.calls, call)
	}
}

// maxReads bounds the reads of an attempt that are recorded, and firstReads is what most attempts need.
const (
	maxReads   = 16
	firstReads = 2
)

// RecordRead adds a read of the cache to the result of the attempt that ctx belongs to. Clients call it, from any goroutine.
// Without an attempt, or after its end, it does nothing.
func RecordRead(ctx context.Context, read Read) {
	current := attemptOf(ctx)
	if current == nil {
		return
	}
	current.mu.Lock()
	defer current.mu.Unlock()
	switch use := current.used(); {
	case current.ended:
	case len(use.reads) == maxReads:
		use.unread++
	default:
		if use.reads == nil {
			use.reads = make([]Read, 0, firstReads)
		}
		use.reads = append(use.reads, read)
	}
}

// RequestOf returns the request of the attempt that ctx belongs to. It returns false if ctx belongs
// to no attempt.
func RequestOf(ctx context.Context) (Request, bool) {
	current := attemptOf(ctx)
	if current == nil {
		return Request{}, false
	}
	return current.request, true
}

// AttemptOf returns what RequestOf does, and when the attempt began.
func AttemptOf(ctx context.Context) (request Request, started time.Time, within bool) {
	current := attemptOf(ctx)
	if current == nil {
		return Request{}, time.Time{}, false
	}
	return current.request, current.started, true
}

// QueuedOf returns how long the attempt that ctx belongs to was queued, as its result will say. It returns false if ctx
// belongs to no attempt.
func QueuedOf(ctx context.Context) (queued time.Duration, within bool) {
	current := attemptOf(ctx)
	if current == nil {
		return 0, false
	}
	return current.queued(), true
}

// missing returns the reconciler for a controller that does not exist.
func missing(name string) Reconciler {
	return func(context.Context, Request) (time.Duration, error) {
		return 0, Terminal(fmt.Errorf("no controller is named %q; set it with Controllers.Set", name))
	}
}

// MakeAttempt makes one attempt outside of [Reconcile], which a replay of recorded requests does. It calls the
// reconciler of a controller once, in the goroutine of the caller, with the timeout of the controller. started is when the
// attempt counts as begun.
func MakeAttempt(ctx context.Context, of Controller, request Request, started time.Time) Result {
	made := newAttempt(ctx, &task{controller: &of, request: request, queuedAt: started}, either(of.Timeout, DefaultTimeout), started)
	result, _ := made.conclude(made.call())
	return result
}
