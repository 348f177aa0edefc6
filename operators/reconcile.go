package operators

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/streams"
	"github.com/reactivex/rxgo/v2"
)

// Defaults of [ReconcileOptions].
const (
	DefaultWorkers = 16 // an API server on loopback is saturated by about 16 writers
	DefaultTimeout = 2 * time.Minute
	DefaultGrace   = 20 * time.Second // below the 30 s that Kubernetes gives a pod to end
)

// Reconciler brings the world of one object closer to what the object asks for. It is
// level-based: it looks at the state as it is, whatever the causes, and it is safe to
// call again at any time. No two calls for one object overlap. A requeueAfter above 0
// asks for another call after that time, unless an event asks for one before. An error
// asks for one after a backoff, except a [Terminal] one.
type Reconciler func(ctx context.Context, request Request) (requeueAfter time.Duration, err error)

// Controller is what Reconcile runs for the requests of one name.
type Controller struct {
	Reconcile Reconciler

	// IgnoreEchoes drops requests that come of nothing but the controller's own writes to
	// or for the same object, and of which it is certain: see Write.Sole. A foreign write is
	// never taken for an echo: each write has a resource version of its own. Set it where
	// one call does all that it can do; leave it where a call writes and counts on being
	// called again for that.
	IgnoreEchoes bool

	// Flow, if set, counts as that of ReconcileOptions does, for this controller alone.
	Flow *Flow
}

// ReconcileOptions set up [Reconcile]. The zero value has the defaults.
type ReconcileOptions struct {
	Workers int           // reconciles at once, of all controllers: 1 to 1024; default 16
	Backoff Backoff       // between attempts that fail
	Timeout time.Duration // of one attempt: 1 ms to 24 h; default 2 min
	Grace   time.Duration // for attempts in flight when the context ends: up to 10 min; default 20 s

	// Start, if set, holds back every attempt until it is closed: until the caches are
	// filled, say. Requests are taken in meanwhile.
	Start <-chan struct{}

	// Flow, if set, counts: In requests, Out results, Waiting objects that are queued, back
	// off or asked for another attempt within 5 s, Running attempts.
	Flow *Flow
}

// withDefaults fills in the defaults and says which option is out of its range.
func (o ReconcileOptions) withDefaults() (ReconcileOptions, error) {
	if o.Workers == 0 {
		o.Workers = DefaultWorkers
	}
	if o.Timeout == 0 {
		o.Timeout = DefaultTimeout
	}
	if o.Grace == 0 {
		o.Grace = DefaultGrace
	}
	if o.Flow == nil {
		o.Flow = &Flow{}
	}
	var err error
	o.Backoff, err = o.Backoff.withDefaults()
	switch {
	case err != nil:
		return o, err
	case o.Workers < 1 || o.Workers > 1024:
		return o, fmt.Errorf("reconcile: Workers is %d; allowed is 1 to 1024", o.Workers)
	case o.Timeout < time.Millisecond || o.Timeout > 24*time.Hour:
		return o, fmt.Errorf("reconcile: Timeout is %v; allowed is 1ms to 24h", o.Timeout)
	case o.Grace < 0 || o.Grace > 10*time.Minute:
		return o, fmt.Errorf("reconcile: Grace is %v; allowed is above 0, up to 10m", o.Grace)
	}
	return o, nil
}

// Validate says which option is out of its range.
func (o ReconcileOptions) Validate() error {
	_, err := o.withDefaults()
	return err
}

// Reconcile runs reconcilers for requests and makes a result of every attempt.
//
//   - One pool of workers serves all controllers, each in turn.
//   - One attempt at a time for each object. Requests that come meanwhile cause exactly
//     one more; requests that wait are one, with all their causes.
//   - An attempt that fails is repeated after a backoff of its object. Requests that come
//     before neither shorten nor lengthen it. A success ends it.
//   - A panic is a failure, with its stack in the error.
//
// When ctx ends, what waits is left to the next start, and attempts in flight may finish
// within Grace; then their context ends too. At the end of the input what is queued is
// still done, and what would be repeated later is not.
//
//	[request a] [request b] [request a]  =>  [result a] [result b] [result a]
//
// It panics on options that do not validate.
func Reconcile(in streams.Stream[Request], controllers map[string]Controller, options ReconcileOptions) streams.Stream[Result] {
	options, err := options.withDefaults()
	if err != nil {
		panic(err)
	}
	return streams.Lift(in, func(ctx context.Context, in <-chan rxgo.Item, out streams.Sink[Result]) {
		attempts, cancel := context.WithCancel(context.WithoutCancel(ctx))
		defer cancel()
		pool := &pool{
			schedule:    newSchedule(options.Backoff),
			start:       options.Start,
			waitingOf:   map[string]int{},
			controllers: controllers,
			timeout:     options.Timeout,
			work:        make(chan *task),
			done:        make(chan Result, options.Workers),
			flow:        options.Flow,
		}
		workers := lifecycle.New(attempts)
		for range options.Workers {
			workers.Go("worker", pool.worker)
		}
		pool.run(ctx, in, out)
		close(pool.work)
		pool.finish(cancel, options.Grace, out)
		_ = workers.Wait() // Workers do not fail: attempt turns panics into results.
	})
}

// resultsAhead bounds the results that wait for a slow receiver; then no further attempt
// starts.
const resultsAhead = 1024

// pool is the state of one observation of Reconcile.
type pool struct {
	start       <-chan struct{} // nil once attempts may start
	schedule    *schedule
	controllers map[string]Controller
	timeout     time.Duration
	work        chan *task
	done        chan Result
	flow        *Flow
	waiting     int            // as flow has it
	waitingOf   map[string]int // as the flows of the controllers have it
	results     []Result
}

func (p *pool) run(ctx context.Context, in <-chan rxgo.Item, out streams.Sink[Result]) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	defer func() {
		p.flow.Waiting.Add(-int64(p.waiting))
		for name, waiting := range p.waitingOf {
			p.controllers[name].Flow.Waiting.Add(-int64(waiting))
		}
	}()
	for in != nil || p.schedule.queued() > 0 || p.schedule.running > 0 || len(p.results) > 0 {
		var work chan<- *task
		next := p.schedule.peek()
		if next != nil && p.start == nil && len(p.results) < resultsAhead {
			work = p.work
		}
		var send chan<- rxgo.Item
		if len(p.results) > 0 {
			send = out.Channel()
		}
		select {
		case <-ctx.Done():
			return
		case work <- next:
			p.schedule.start(next)
			p.flow.Running.Add(1)
			if flow := p.controllers[next.target.controller].Flow; flow != nil {
				flow.Running.Add(1)
			}
		case send <- rxgo.Item{V: p.results}:
			p.results = nil
		case result := <-p.done:
			p.finished(result)
		case <-p.start:
			p.start = nil
		case <-timer.C:
			p.schedule.tick(time.Now())
		case item, open := <-in:
			if !open {
				in = nil
				timer.Stop() // What would be repeated later is not.
				break
			}
			if !p.receive(item, out) {
				return
			}
		}
		p.count()
		if due, waits := p.schedule.due(); waits && in != nil {
			timer.Reset(time.Until(due))
		}
	}
}

func (p *pool) receive(item rxgo.Item, out streams.Sink[Result]) bool {
	requests, err := streams.Values[Request](item)
	if err != nil {
		if len(p.results) > 0 && !out.Send(p.results) { // They come before it.
			return false
		}
		p.results = nil
		return out.Error(err)
	}
	p.flow.In.Add(int64(len(requests)))
	now := time.Now()
	for _, request := range requests {
		controller := p.controllers[request.Controller]
		if controller.Flow != nil {
			controller.Flow.In.Add(1)
		}
		p.schedule.add(request, controller.IgnoreEchoes, now)
	}
	return true
}

// count brings the flows up to date with what waits.
func (p *pool) count() {
	waiting := p.schedule.waiting()
	p.flow.Waiting.Add(int64(waiting - p.waiting))
	p.waiting = waiting
	for name, controller := range p.controllers {
		if controller.Flow == nil {
			continue
		}
		waiting := p.schedule.waitingOf(name)
		controller.Flow.Waiting.Add(int64(waiting - p.waitingOf[name]))
		p.waitingOf[name] = waiting
	}
}

func (p *pool) finished(result Result) {
	p.flow.Running.Add(-1)
	p.flow.Out.Add(1)
	if flow := p.controllers[result.Controller].Flow; flow != nil {
		flow.Running.Add(-1)
		flow.Out.Add(1)
	}
	echoes := p.controllers[result.Controller].IgnoreEchoes
	p.results = append(p.results, p.schedule.finish(result, echoes, time.Now()))
}

// finish waits for the attempts in flight, and ends their context when grace is over.
// Their results go out as far as the receiver takes them within that time.
func (p *pool) finish(cancel func(), grace time.Duration, out streams.Sink[Result]) {
	timer := time.NewTimer(grace)
	defer timer.Stop()
	over := false
	for p.schedule.running > 0 || (len(p.results) > 0 && !over) {
		var send chan<- rxgo.Item
		if len(p.results) > 0 && !over {
			send = out.Channel()
		}
		select {
		case result := <-p.done:
			p.finished(result)
		case send <- rxgo.Item{V: p.results}:
			p.results = nil
		case <-timer.C:
			over = true
			cancel()
		}
	}
}

func (p *pool) worker(ctx context.Context) error {
	for next := range p.work {
		p.done <- p.attempt(ctx, next)
	}
	return nil
}

// attempt calls the reconciler once.
func (p *pool) attempt(ctx context.Context, task *task) Result {
	started := time.Now()
	result := Result{
		Request: task.request,
		Attempt: task.failures + 1,
		Started: started,
		Queued:  started.Sub(task.queuedAt),
	}
	ctx, cancel := context.WithTimeoutCause(ctx, p.timeout, errTimeout)
	defer cancel()
	ctx, writes := withAttempt(ctx, task.request)
	controller, known := p.controllers[task.request.Controller]
	if !known {
		controller.Reconcile = func(context.Context, Request) (time.Duration, error) {
			return 0, Terminal(fmt.Errorf("there is no controller of the name %q", task.request.Controller))
		}
	}
	result.Err = lifecycle.Guard(func() (err error) {
		result.RequeueAfter, err = controller.Reconcile(ctx, task.request)
		return err
	})
	if result.Err != nil && errors.Is(context.Cause(ctx), errTimeout) {
		result.Err = fmt.Errorf("%w after %v: %w", ErrTimeout, p.timeout, result.Err)
	}
	result.Duration = time.Since(started)
	result.Writes = writes.taken()
	if result.Outcome = outcomeOf(result); result.Outcome != Requeued {
		result.RequeueAfter = 0 // An error may have come with one.
	}
	return result
}
