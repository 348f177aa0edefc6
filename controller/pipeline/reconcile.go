package pipeline

import (
	"errors"
	"slices"

	"github.com/bellerophon-io/bellerophon/operators"
	"github.com/bellerophon-io/bellerophon/streams"
)

// ErrRemoved is the error of an attempt that did not begin because its controller was removed. The
// pipeline drops its result.
var ErrRemoved = errors.New("the controller is removed")

// reconcile adds the stage that runs the reconcilers.
func (p *Pipeline) reconcile(requests streams.Stream[operators.Request]) streams.Stream[operators.Result] {
	stats := &p.reconciles
	held := p.options.Attempts
	if held == nil {
		held = func(hold Hold) {
			if stats.Busy() {
				hold("", max(1, stats.Waiting.Load()+stats.Running.Load()))
			}
		}
	}
	p.add(&stage{name: "reconcile", in: stats.In.Load, out: stats.Out.Load, waiting: stats.Waiting.Load, held: held})
	p.sent = stats.Out.Load
	options := p.options.Reconcile
	options.Stats, options.Received, options.Unfinished = stats, p.received, &p.unfinished
	return operators.Reconcile(requests, p.options.Controllers, options)
}

// finish adds the end of the pipeline, which holds results that were sent and are not handled yet.
func (p *Pipeline) finish() {
	sent := p.sent
	p.add(&stage{name: "results", held: func(hold Hold) { hold("", between(sent(), p.handled.Load())) }})
}

// handle handles results. They count as held until everything that they change is visible.
func (p *Pipeline) handle(results []operators.Result, onResults func([]operators.Result)) {
	handled := int64(len(results))
	results = slices.DeleteFunc(results, func(result operators.Result) bool { return errors.Is(result.Err, ErrRemoved) })
	for i := range results {
		p.measure(&results[i])
	}
	if len(results) > 0 {
		onResults(results)
		p.results.Send(results)
	}
	active := slices.ContainsFunc(results, endsCalm)
	if active {
		p.options.Cache.MarkActive()
	}
	p.handled.Add(handled)
	if !active {
		p.options.Cache.Recheck()
	}
	streams.Recycle(results)
}

// endsCalm reports whether the end of an attempt starts the quiet period anew. A routine check that wrote
// nothing does not, and neither does another failure of a key that does not count any longer. Otherwise
// such a key would keep the cache from being Settled.
func endsCalm(result operators.Result) bool {
	failsAgain := result.Outcome == operators.Failed && result.Attempt > operators.FailingAfter
	return len(result.Writes) > 0 || len(result.Causes) > 0 && !failsAgain
}

// measure adds the duration of a loop that ended with an attempt without a write. The cache measures
// the other loops, by the echo of the write.
func (p *Pipeline) measure(result *operators.Result) {
	if len(result.Writes) == 0 && result.Err == nil && len(result.Causes) > 0 {
		p.options.Cache.ObserveLoop(result.Causes, result.Received, result.Started.Add(result.Duration))
	}
}
