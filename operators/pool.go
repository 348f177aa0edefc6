package operators

import (
	"context"
	"sync"
	"time"

	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/streams"
	"github.com/reactivex/rxgo/v2"
)

// resultsAhead bounds the results that wait for a slow receiver; then no further attempt
// starts.
const resultsAhead = 1024

// pool is the state of one observation of Reconcile. One goroutine takes requests in and
// sends results. Workers take tasks and leave results under one lock, so that nobody
// needs to be woken for a busy worker to go on with the next task.
type pool struct {
	timeout     time.Duration
	flow        *StageStats
	received    func() // may be nil
	controllers *Controllers
	news        chan struct{} // has a token when there are results, or other controllers
	workers     *lifecycle.Group

	mu       sync.Mutex
	work     sync.Cond // there may be something for an idle worker
	idle     int       // workers that wait for work
	waking   bool      // one of them has been told, and has not come yet
	schedule *schedule
	stopped  bool // no further attempt starts
	results  []Result
	sending  int // results that are out of the above, and not yet received
	waiting  int // as flow has it
	running  int // as flow has it
}

func newPool(controllers *Controllers, options ReconcileOptions) *pool {
	p := &pool{
		timeout:     options.Timeout,
		flow:        options.Stats,
		received:    options.Received,
		controllers: controllers,
		news:        make(chan struct{}, 1),
		schedule:    newSchedule(options.Workers, options.Backoff, options.Unfinished),
	}
	if options.Start == nil {
		p.schedule.openGate(time.Now())
	}
	p.work.L = &p.mu
	return p
}

// locked calls a function with the lock, and then tells flow and an idle worker of what
// it has changed.
func (p *pool) locked(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
	p.changed()
}

// changed is called with the lock. It wakes one worker at a time: that one wakes the next,
// if there is still work then. Of short reconciles, many are done before that.
func (p *pool) changed() {
	if p.idle > 0 && !p.waking && p.mayStart() {
		p.waking = true
		p.work.Signal()
	}
	running := p.schedule.running - p.running
	p.running += running
	if running > 0 { // Before it waits no more: at no time nothing must seem to be left.
		p.flow.Running.Add(int64(running))
	}
	if waiting := p.schedule.waiting - p.waiting; waiting != 0 {
		p.waiting += waiting
		p.flow.Waiting.Add(int64(waiting))
	}
	if running < 0 {
		p.flow.Running.Add(int64(running))
	}
}

// mayStart says whether there is a task that may start.
func (p *pool) mayStart() bool {
	return !p.stopped && len(p.results)+p.sending < resultsAhead && p.schedule.ready()
}

// worker makes attempts until the pool is stopped.
func (p *pool) worker(ctx context.Context) error {
	var current *attempt // in flight, without the lock
	p.mu.Lock()
	defer func() {
		if current != nil { // A reconciler has called runtime.Goexit, which nothing can stop.
			result, ended := current.conclude(0, ErrExited)
			p.mu.Lock()
			p.finished(current.task, &result, ended)
			p.changed()
			p.workers.Go("worker", p.worker)
		}
		p.mu.Unlock()
	}()
	for {
		for !p.mayStart() {
			p.changed()
			if p.stopped {
				return nil
			}
			p.idle++
			p.work.Wait()
			p.idle--
			p.waking = false
		}
		task := p.schedule.start()
		p.changed()
		p.mu.Unlock()
		current = newAttempt(ctx, task, p.timeout)
		result, ended := current.conclude(current.call())
		current = nil
		p.mu.Lock()
		p.finished(task, &result, ended)
	}
}

// finished notes the result of a task. It is called with the lock, and before changed: a
// worker that goes on with the next task wakes no other one for it.
func (p *pool) finished(task *task, result *Result, ended time.Time) {
	p.schedule.finish(task, result, ended)
	p.results = append(p.results, *result)
	p.flow.Out.Add(1)
	if len(p.results) == 1 {
		select {
		case p.news <- struct{}{}:
		default:
		}
	}
}

// run takes requests in and sends results, until ctx ends, or the input has and what was
// queued is done.
func (p *pool) run(ctx context.Context, in <-chan rxgo.Item, start <-chan struct{}, out streams.Sink[Result]) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	var armed time.Time // what timer is set to
	var next []Result   // what is sent
	var item rxgo.Item  // what is sent of it
	for {
		due, over := p.look(&next)
		if over && in == nil && next == nil {
			return
		}
		if !due.IsZero() && in != nil && due != armed {
			timer.Reset(time.Until(due))
			armed = due
		}
		var send chan<- rxgo.Item
		if next != nil {
			if send = out.Channel(); item.V == nil {
				item = out.Item(next)
			}
		}
		select {
		case <-ctx.Done():
			p.giveBack(next)
			return
		case send <- item:
			next, item = nil, rxgo.Item{}
		case <-p.news:
		case <-start:
			start = nil
			p.locked(func() { p.schedule.openGate(time.Now()) })
		case <-timer.C:
			armed = time.Time{}
			p.locked(func() { p.schedule.tick(time.Now()) })
		case received, open := <-in:
			if !open {
				in = nil
				timer.Stop() // What would be repeated later is not.
				break
			}
			err := p.receive(received)
			if p.received != nil {
				p.received()
			}
			if err != nil {
				p.giveBack(next)
				next, item = nil, rxgo.Item{}
				p.look(&next) // What has a result by now comes before the error.
				if len(next) > 0 && !out.Send(next) || !out.Error(err) {
					return
				}
				next = nil
			}
		}
	}
}

// look takes the results to send next, unless there are some. It says when a delay is
// over, and whether nothing is left to do but for what is delayed.
func (p *pool) look(next *[]Result) (due time.Time, over bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.schedule.follow(p.controllers.published.Load())
	if *next == nil {
		p.sending = len(p.results)
		if p.sending > 0 {
			*next, p.results = p.results, streams.NewBatch[Result](p.sending)
		}
	}
	p.changed()
	due, _ = p.schedule.due()
	return due, p.schedule.held == 0 && p.schedule.queued == 0 && p.schedule.running == 0 && len(p.results) == 0
}

// giveBack undoes the taking of results.
func (p *pool) giveBack(results []Result) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.results = append(results, p.results...)
	p.sending = 0
}

// receive takes in requests. An error among them is returned.
func (p *pool) receive(item rxgo.Item) error {
	requests, err := streams.Values[Request](item)
	if len(requests) == 0 {
		return err
	}
	p.locked(func() {
		p.schedule.follow(p.controllers.published.Load()) // Requests come after the controller that they are for.
		now := time.Now()
		for i := range requests {
			p.schedule.add(&requests[i], now)
		}
	})
	p.flow.In.Add(int64(len(requests))) // Last: see Flow.
	streams.Recycle(requests)
	return err
}

// finish waits for the attempts in flight, and ends their context when grace is over.
// Their results go out as far as the receiver takes them within that time; later ones are
// dropped.
func (p *pool) finish(cancel func(), grace time.Duration, out streams.Sink[Result]) {
	p.locked(func() {
		p.stopped = true
		p.work.Broadcast()
	})
	timer := time.NewTimer(grace)
	defer timer.Stop()
	over := false
	var next []Result
	for {
		p.look(&next)
		if over {
			next = nil // Else the results of the others would wait behind these for ever.
		}
		if next == nil && p.idleNow() {
			break
		}
		var send chan<- rxgo.Item
		if next != nil {
			send = out.Channel()
		}
		select {
		case <-p.news:
		case send <- out.Item(next):
			next = nil
		case <-timer.C:
			over = true
			cancel()
		}
	}
	p.locked(p.schedule.abandon)
}

// idleNow says whether no attempt is in flight, and none has left a result behind.
func (p *pool) idleNow() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.schedule.running == 0 && len(p.results) == 0
}
