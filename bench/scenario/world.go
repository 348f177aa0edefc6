package scenario

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	v1 "github.com/bellerophon-io/bellerophon/bellerophon/api/simple/v1"
	"github.com/bellerophon-io/bellerophon/bench/proxy"
	"github.com/bellerophon-io/bellerophon/bench/rundir"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/sources/faultproxy"
)

// Process is a running contender. contender.Process implements it.
type Process interface {
	PID() int
	Ready(ctx context.Context) error
	Done() <-chan struct{}
	Err() error // how the process ended, in one line, after Done
	Stop() (time.Duration, error)
}

// World is the environment of a scenario. It belongs to one round.
type World struct {
	Clients *Clients
	Proxy   *proxy.Proxy
	Judge   *Judge
	// Start starts the contender.
	Start func(ctx context.Context) (Process, error)
	// StartMember starts one of several processes of the contender. The proxy is of that process alone.
	StartMember func(ctx context.Context, role Role) (Member, *proxy.Proxy, error)
	// Servers holds the process IDs of etcd and the API server, in this order.
	Servers []int
	// Faults is the proxy that disturbs the API server for the contender. It is nil unless the scenario does that.
	Faults *faultproxy.Proxy
	// RestartServer kills the API server and starts it again. It returns the process ID once the API server is ready.
	RestartServer func(ctx context.Context) (pid int, err error)
	// Rate is the rate of the ideal client in objects per second.
	Rate float64
	// Warm is set if the contender warms up before it is measured.
	Warm bool
	// Calm waits until the cluster itself is idle.
	Calm func(ctx context.Context) error
	// Quiet is how long a contender has to be quiet to count as settled.
	Quiet time.Duration
	// Progress receives the current step and its progress. total is 0 if it is unknown.
	Progress func(what string, done, total int)

	// Exec is when the contender was last started, and Samples holds the latencies. Run sets both.
	Exec    time.Time
	Samples rundir.Samples

	process   Process
	guard     *lifecycle.Group
	resources []string // that the contender has to watch; nil for the objects alone
}

// Failure is an error that the contender caused.
type Failure struct{ Err error }

func (f *Failure) Error() string { return f.Err.Error() }
func (f *Failure) Unwrap() error { return f.Err }

// failed wraps an error in a Failure. It returns the error as it is if the error is a Failure
// already, or if ctx ended for another reason than a Failure.
func failed(ctx context.Context, err error) error {
	var known *Failure
	if err == nil || errors.As(err, &known) || (ctx.Err() != nil && !errors.As(context.Cause(ctx), &known)) {
		return err
	}
	return &Failure{err}
}

// start starts the contender. The returned context is cancelled when the contender ends.
func (w *World) start(ctx context.Context) (context.Context, error) {
	w.Progress("starting the contender", 0, 0)
	w.Exec = time.Now()
	process, err := w.Start(ctx)
	if err != nil {
		return nil, failed(ctx, err)
	}
	w.process = process
	guarded, end := context.WithCancelCause(ctx)
	w.guard = lifecycle.New(ctx)
	w.guard.Go("guard", func(ctx context.Context) error {
		select {
		case <-process.Done():
			end(ended(process))
		case <-ctx.Done():
			end(ctx.Err())
		}
		return nil
	})
	return guarded, nil
}

// ended returns the failure of a contender that ended before the scenario did.
func ended(process Process) *Failure {
	return &Failure{fmt.Errorf("%w; see contender.log", process.Err())}
}

// stop ends the contender, if it runs.
func (w *World) stop(ctx context.Context) error {
	if w.process == nil {
		return nil
	}
	w.guard.Stop()
	_ = w.guard.Wait() // The guard returns no errors.
	_, err := w.process.Stop()
	w.process = nil
	return failed(ctx, err)
}

// settle waits until the contender serves its metrics, watches the objects, and is quiet.
func (w *World) settle(ctx context.Context, objects int) error {
	return w.quiet(ctx, w.process, w.Proxy, objects)
}

// quiet waits until a process serves its metrics, watches the objects, and has been quiet at its proxy.
func (w *World) quiet(ctx context.Context, process Process, through *proxy.Proxy, objects int) error {
	w.Progress("waiting until the contender is quiet", 0, 0)
	limit := time.Minute + time.Duration(objects)*20*time.Millisecond
	ctx, cancel := context.WithTimeoutCause(ctx, limit, &Failure{fmt.Errorf("the contender was not quiet for %v within %v", w.Quiet, limit)})
	defer cancel()
	if err := process.Ready(ctx); err != nil {
		return failed(ctx, err)
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		left := w.Quiet - time.Since(through.IdleSince())
		switch {
		case left > 0:
		case w.isWatching(through):
			return nil
		default:
			left = w.Quiet // The contender has not opened its watch yet.
		}
		timer.Reset(left)
	}
}

// isWatching reports whether the contender watches the resources that it has to watch, through a proxy.
func (w *World) isWatching(through *proxy.Proxy) bool {
	if w.resources == nil {
		return through.IsWatched(v1.Plural)
	}
	return !slices.ContainsFunc(w.resources, func(resource string) bool { return !through.IsWatched(resource) })
}

// wait waits until some seconds have passed since a time, and shows how many have.
func (w *World) wait(ctx context.Context, what string, since time.Time, seconds int) error {
	timer, ticker := time.NewTimer(time.Until(since.Add(time.Duration(seconds)*time.Second))), time.NewTicker(time.Second)
	defer timer.Stop()
	defer ticker.Stop()
	for {
		select {
		case <-timer.C:
			return nil
		case <-ticker.C:
			w.Progress(what, int(time.Since(since).Seconds()), seconds)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// converge waits until all objects of a board have reached their wanted numbers. found is the
// number of objects that the contender has to list first: a JVM takes minutes to list 50,000 with
// their children.
func (w *World) converge(ctx context.Context, b *board, what string, objects, found int) error {
	limit := time.Minute + time.Duration(objects)*200*time.Millisecond + time.Duration(found)*20*time.Millisecond
	ctx, cancel := context.WithTimeoutCause(ctx, limit, &Failure{fmt.Errorf("not all objects were %s within %v", what, limit)})
	defer cancel()
	if err := b.await(ctx, func(missing int) { w.Progress(what, objects-missing, objects) }); err != nil {
		var failure *Failure
		if errors.As(err, &failure) {
			return &Failure{err}
		}
		return err
	}
	return nil
}

// convergeAndSettle calls converge, and then waits until the contender is quiet.
func (w *World) convergeAndSettle(ctx context.Context, b *board, what string, objects int) error {
	if err := w.converge(ctx, b, what, objects, 0); err != nil {
		return err
	}
	return w.settle(ctx, objects)
}
