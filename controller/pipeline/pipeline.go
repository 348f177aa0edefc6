package pipeline

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/bellerophon-io/bellerophon/cache"
	"github.com/bellerophon-io/bellerophon/operators"
	"github.com/bellerophon-io/bellerophon/streams"
)

// Options configures a [Pipeline]. Cache, Rules and Controllers are required.
type Options struct {
	Cache       *cache.Cache
	Rules       *operators.Rules
	Controllers *operators.Controllers

	Window time.Duration // see operators.DebounceOptions
	Burst  int           // see operators.DebounceOptions
	Stages []Stage       // between the debounce and the cache, in this order

	// Changed, if set, is called with the changes of the cache, before they make requests. It must be fast, and must
	// not keep the slice.
	Changed func(changes []streams.Change)

	// Applying, if set, is called with each batch of events that the cache is to apply. It must call apply once. It must be
	// fast, and must not keep the slice.
	Applying func(events []streams.Event, apply func() []streams.Change)

	// Results are operators on the results of attempts, in this order. Each must use [streams.MapOnReceive] alone, and pass
	// all results on. They also see the results with ErrRemoved.
	Results []func(results streams.Stream[operators.Result]) streams.Stream[operators.Result]

	// Reconcile configures the stage that runs reconcilers. The pipeline sets its Stats, Received and Unfinished.
	Reconcile operators.ReconcileOptions

	// Sources, if set, calls hold for each source that holds something or has not joined yet.
	Sources func(hold Hold)

	// Attempts, if set, calls hold for each controller that holds requests or runs attempts. If it is
	// not set, all requests and attempts count.
	Attempts func(hold Hold)
}

// Hold records that a stage holds a number of items. of names the holder within the stage, such as a
// kind or a controller.
type Hold func(of string, held int64)

// Pipeline is one assembled pipeline. Create it with [New] and call Run once.
type Pipeline struct {
	options    Options
	stages     []*stage
	sent       func() int64                     // how many items the last stage in the list has sent; used while stages are added
	attempts   streams.Stream[operators.Result] // all stages, from the events to the results
	asked      *streams.Queue[operators.Request]
	steps      *streams.Queue[func()] // see RunBetweenBatches
	intake     intake
	reconciles operators.StageStats
	handled    atomic.Int64 // results that were handled
	unfinished operators.Unfinished
	active     chan struct{} // holds a token when something happened

	events  *streams.Subject[streams.Event]
	changes *streams.Subject[streams.Change]
	results *streams.Subject[operators.Result]
}

// New creates the pipeline from events to results. For an option that is missing or out of its range,
// it returns an error that names the option.
func New(events streams.Stream[streams.Event], options Options) (*Pipeline, error) {
	if err := options.validate(); err != nil {
		return nil, fmt.Errorf("pipeline: %w", err)
	}
	p := &Pipeline{
		options: options,
		asked:   streams.NewQueue[operators.Request](),
		steps:   streams.NewQueue[func()](),
		active:  make(chan struct{}, 1),
		events:  streams.NewSubject[streams.Event](0),
		changes: streams.NewSubject[streams.Change](0),
		results: streams.NewSubject[operators.Result](0),
	}
	p.sources()
	debounced := p.debounce(events)
	transformed := p.ownStages(debounced)
	changes := p.applyToCache(transformed)
	requests := p.trigger(changes)
	p.attempts = p.reconcile(requests)
	for _, operator := range options.Results {
		p.attempts = operator(p.attempts)
	}
	p.finish()
	if err := p.checkNames(); err != nil {
		return nil, fmt.Errorf("pipeline: %w", err)
	}
	return p, nil
}

func (o Options) validate() error {
	switch {
	case o.Cache == nil || o.Rules == nil || o.Controllers == nil:
		return errors.New("one of Cache, Rules and Controllers is not set; set all three")
	case o.Reconcile.Stats != nil || o.Reconcile.Received != nil || o.Reconcile.Unfinished != nil:
		return errors.New("the pipeline itself sets Reconcile.Stats, Reconcile.Received and Reconcile.Unfinished; leave them out")
	}
	if err := (operators.DebounceOptions{Window: o.Window, Burst: o.Burst}).Validate(); err != nil {
		return err
	}
	if err := o.Reconcile.Validate(); err != nil {
		return err
	}
	return validateStages(o.Stages)
}

// intake counts what passes the stages that run in the goroutine of Reconcile's intake. Such a stage
// unpacks an item; the intake then schedules the requests that result. Only then does the item count
// as taken.
type intake struct {
	events, asked, retried int64        // unpacked, and not scheduled yet; only the goroutine of the intake uses them
	taken                  atomic.Int64 // events whose requests are all scheduled
	retries                atomic.Int64 // requests of retried rules that are scheduled
	asking                 atomic.Int64 // requests of Enqueue that are not scheduled yet
}

// received records that everything that was unpacked is scheduled.
func (p *Pipeline) received() {
	unpacked := &p.intake
	if unpacked.events > 0 {
		unpacked.taken.Add(unpacked.events)
		unpacked.events = 0
	}
	if unpacked.asked > 0 {
		unpacked.asking.Add(-unpacked.asked)
		unpacked.asked = 0
	}
	if unpacked.retried > 0 {
		unpacked.retries.Add(unpacked.retried)
		unpacked.retried = 0
	}
	// An event that repeats what the cache holds leaves the quiet period alone. But the pipeline was
	// busy with it, so the level may rise again now.
	p.options.Cache.Recheck()
}

// Run runs the pipeline until ctx or its input ends. It calls onResults with the results of attempts
// and onError with each failure, one call at a time, from its own goroutine. onResults must not keep
// the slice. Results of controllers that were removed before their attempt began are left out. When
// Run returns, all goroutines of the pipeline have returned, and the streams of Events, Changes and
// Results end.
func (p *Pipeline) Run(ctx context.Context, onResults func([]operators.Result), onError func(error)) error {
	defer p.results.End()
	defer p.changes.End()
	defer p.events.End()
	return streams.ForEach(ctx, p.attempts, func(results []operators.Result) { p.handle(results, onResults) }, onError)
}

// Enqueue adds requests that are not made by a change. It waits while its queue holds 16,384 requests, and
// returns false if ctx ends before there is room. It may be called from any goroutine.
func (p *Pipeline) Enqueue(ctx context.Context, requests ...operators.Request) bool {
	p.intake.asking.Add(int64(len(requests)))
	if p.asked.Put(ctx, requests...) {
		p.options.Cache.MarkActive()
		return true
	}
	p.intake.asking.Add(-int64(len(requests)))
	return false
}

// RunBetweenBatches calls a function between two batches of events: what the earlier batch changed in the cache has made its
// requests, and the later one has changed nothing so far. RunBetweenBatches waits for the call, and returns false if ctx ends
// first; the function may then be called later. The function must be fast, because the pipeline waits for it.
func (p *Pipeline) RunBetweenBatches(ctx context.Context, step func()) bool {
	called := make(chan struct{})
	if !p.steps.Put(ctx, func() { defer close(called); step() }) {
		return false
	}
	select {
	case <-called:
		return true
	case <-ctx.Done():
		return false
	}
}

// ReportError adds a failure, which Run passes to its onError. It waits, and returns false, as Enqueue does.
func (p *Pipeline) ReportError(ctx context.Context, err error) bool { return p.asked.Error(ctx, err) }

// Events returns a hot stream of the events that enter the cache, in order. The pipeline never waits
// for an observer: one that reads too slowly gets a [streams.Lagged] error. Objects belong to the
// cache and must not be changed.
func (p *Pipeline) Events() streams.Stream[streams.Event] { return p.events.Stream() }

// Changes returns a hot stream of the changes that events make in the cache, by the rules of Events.
// Readers of the cache see a change before it is emitted.
func (p *Pipeline) Changes() streams.Stream[streams.Change] { return p.changes.Stream() }

// Results returns a hot stream of the results of all attempts, by the rules of Events.
func (p *Pipeline) Results() streams.Stream[operators.Result] { return p.results.Stream() }
