package operators

import (
	"context"
	"sync"
	"time"

	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/streams"
	"github.com/reactivex/rxgo/v2"
)

// resultsAhead bounds the results that wait for a slow receiver. At the bound no further attempt
// starts.
const resultsAhead = 1024

// pool is the state of one observation of Reconcile. One goroutine takes requests in and sends
// results. Workers take tasks and leave results under one lock, so that a busy worker goes on with
// the next task without waking another goroutine.
type pool struct {
	timeout     time.Duration
	stats       *StageStats
	received    func() // may be nil
	controllers *Controllers
	wake        chan struct{} // has a token when there are results, or the controllers changed
	workers     *lifecycle.Group

	mu       sync.Mutex
	work     sync.Cond // signals that there may be work for an idle worker
	idle     int       // workers that wait for work
	started  int       // workers, with those in the place of stuck ones
	waking   bool      // an idle worker was signaled, and has not woken up yet
	schedule *schedule
	stopped  bool // no further attempt starts
	results  []Result
	room     int // a guess for the results of the next batch: see streams.NextRoom
	sending  int // results that were taken from results, and have not been received yet
	waiting  int // schedule.waiting, as stats last counted it
	running  int // attempts in flight, as stats last counted it
}

// newPool creates a pool without workers.
func newPool(controllers *Controllers, options ReconcileOptions) *pool {
	p := &pool{
		timeout:     options.Timeout,
		stats:       options.Stats,
		received:    options.Received,
		controllers: controllers,
		wake:        make(chan struct{}, 1),
		schedule:    newSchedule(options.Workers, options.Backoff, options.Unfinished),
	}
	if options.Start == nil {
		p.schedule.openGate(time.Now())
	}
	p.work.L = &p.mu
	return p
}

// locked calls a function with the lock held, and then update.
func (p *pool) locked(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
	p.update()
}

// update counts in stats what the schedule has changed, and wakes an idle worker if a task may
// start. It is called with the lock held. It wakes one worker at a time: that one wakes the next,
// if there is still work. When reconciles are short, many are done before the next worker wakes.
func (p *pool) update() {
	switch {
	case p.idle > 0 && !p.waking && p.mayStart():
		p.waking = true
		p.work.Signal()
	case p.idle == 0 && p.schedule.running >= p.started && p.mayStart(): // Some attempts are stuck.
		p.started++ // Only now: an idle worker more costs 3 % of CPU at 100,000 events a second.
		p.workers.Go("worker", p.worker)
	}
	running := p.schedule.running - p.running
	p.running += running
	if running > 0 { // Before Waiting falls: the pool must never look idle in between.
		p.stats.Running.Add(int64(running))
	}
	if waiting := p.schedule.waiting - p.waiting; waiting != 0 {
		p.waiting += waiting
		p.stats.Waiting.Add(int64(waiting))
	}
	if running < 0 {
		p.stats.Running.Add(int64(running))
	}
}

// mayStart reports whether a task may start now.
func (p *pool) mayStart() bool {
	return !p.stopped && len(p.results)+p.sending < resultsAhead && p.schedule.ready()
}

// worker makes attempts until the pool is stopped.
func (p *pool) worker(ctx context.Context) error {
	var current *attempt // in flight, while the lock is not held
	p.mu.Lock()
	defer func() {
		if current != nil { // The reconciler called runtime.Goexit, which nothing can stop.
			result, ended := current.conclude(0, ErrExited)
			p.mu.Lock()
			p.record(current.task, &result, ended)
			p.update()
			p.workers.Go("worker", p.worker)
		}
		p.mu.Unlock()
	}()
	var ended time.Time // when the last attempt of this worker ended
	for {
		for !p.mayStart() {
			p.update()
			if p.stopped {
				return nil
			}
			if p.started > p.schedule.workersWanted() { // It was in the place of a stuck one.
				p.started--
				return nil
			}
			p.idle++
			p.work.Wait()
			p.idle--
			p.waking, ended = false, time.Time{}
		}
		task := p.schedule.start()
		p.update()
		p.mu.Unlock()
		current = newAttempt(ctx, task, either(task.controller.Timeout, p.timeout), startedAt(task, ended))
		var result Result
		result, ended = current.conclude(current.call())
		current = nil
		p.mu.Lock()
		p.record(task, &result, ended)
	}
}

// startedAt returns when a task was started by a worker whose last attempt ended at a time. The worker has not
// waited since, so it need not ask the clock again if the task was ready before.
func startedAt(task *task, ended time.Time) time.Time {
	if ended.Before(task.queuedAt) || ended.IsZero() {
		return time.Now()
	}
	return ended
}

// either returns the first duration, or the second one if the first is 0.
func either(first, second time.Duration) time.Duration {
	if first != 0 {
		return first
	}
	return second
}

// record notes the result of a task. The caller holds the lock, and calls update afterwards, when it has taken
// its next task. Otherwise it would wake another worker for that task.
func (p *pool) record(task *task, result *Result, ended time.Time) {
	p.schedule.finish(task, result, ended)
	p.results = append(p.results, *result)
	p.stats.Out.Add(1)
	if len(p.results) == 1 {
		select {
		case p.wake <- struct{}{}:
		default:
		}
	}
}

// run takes requests in and sends results. It returns when ctx ends, or when the input has ended
// and what was queued is done.
func (p *pool) run(ctx context.Context, in <-chan rxgo.Item, start <-chan struct{}, out streams.Sink[Result]) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	var armed time.Time // when timer fires; zero if it is not set
	var next []Result   // the results to send next
	var item rxgo.Item  // the item that carries next
	for {
		due, over := p.takeResults(&next)
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
			p.putBack(next)
			return
		case send <- item:
			next, item = nil, rxgo.Item{}
		case <-p.wake:
		case <-start:
			start = nil
			p.locked(func() { p.schedule.openGate(time.Now()) })
		case <-timer.C:
			armed = time.Time{}
			p.locked(func() { p.schedule.tick(time.Now()) })
		case received, open := <-in:
			if !open {
				in = nil
				timer.Stop() // Delayed attempts are not made any more.
				break
			}
			err := p.receive(received)
			if p.received != nil {
				p.received()
			}
			if err != nil {
				p.putBack(next)
				next, item = nil, rxgo.Item{}
				p.takeResults(&next) // The results so far come before the error.
				if len(next) > 0 && !out.Send(next) || !out.Error(err) {
					return
				}
				next = nil
			}
		}
	}
}

// takeResults takes the results to send next, unless next holds some. It adopts changes of the
// controllers first, and notes which attempts are stuck. It returns when it is due again, and whether nothing is left to do except
// delayed tasks.
func (p *pool) takeResults(next *[]Result) (due time.Time, over bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.schedule.setRoster(p.controllers.published.Load())
	if *next == nil {
		p.sending = len(p.results)
		if p.sending > 0 {
			p.room = streams.NextRoom(p.room, p.sending)
			*next, p.results = p.results, streams.NewBatch[Result](p.room)
		}
	}
	if p.schedule.contended() {
		p.schedule.noteStuck(time.Now())
	}
	p.update()
	return p.schedule.due(), p.schedule.held == 0 && p.schedule.queued == 0 && p.schedule.running == 0 && len(p.results) == 0
}

// putBack puts results back that were taken and not sent.
func (p *pool) putBack(results []Result) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.results = append(results, p.results...)
	p.sending = 0
}

// receive takes in the requests of an item. It returns the error that the item carries, if any.
func (p *pool) receive(item rxgo.Item) error {
	requests, err := streams.Values[Request](item)
	if len(requests) == 0 {
		return err
	}
	p.locked(func() {
		p.schedule.setRoster(p.controllers.published.Load()) // A controller is set before requests for it are sent.
		now := time.Now()
		for i := range requests {
			p.schedule.add(&requests[i], now)
		}
	})
	p.stats.In.Add(int64(len(requests))) // Last: see StageStats.
	streams.Recycle(requests)
	return err
}

// drain waits for the attempts in flight, and ends their context when grace is over. Within that
// time it sends their results, as far as the receiver takes them. Later results are dropped.
func (p *pool) drain(cancel func(), grace time.Duration, out streams.Sink[Result]) {
	p.locked(func() {
		p.stopped = true
		p.work.Broadcast()
	})
	timer := time.NewTimer(grace)
	defer timer.Stop()
	over := false
	var next []Result
	for {
		p.takeResults(&next)
		if over {
			next = nil // Otherwise the results of the others would wait behind these forever.
		}
		if next == nil && p.isDrained() {
			break
		}
		var send chan<- rxgo.Item
		if next != nil {
			send = out.Channel()
		}
		select {
		case <-p.wake:
		case send <- out.Item(next):
			next = nil
		case <-timer.C:
			over = true
			cancel()
		}
	}
	p.locked(p.schedule.abandon)
}

// isDrained reports whether no attempt is in flight, and none has left a result behind.
func (p *pool) isDrained() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.schedule.running == 0 && len(p.results) == 0
}
