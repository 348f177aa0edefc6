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

// Options set up a [Pipeline]. Cache, Rules and Controllers are required.
type Options struct {
	Cache       *cache.Cache
	Rules       *operators.Rules
	Controllers *operators.Controllers

	Window time.Duration // see operators.DebounceOptions
	Burst  int           // likewise
	Stages []Stage       // between the debounce and the cache, in this order

	// Reconcile sets up the last stage. The pipeline sets its Stats, Received and Unfinished.
	Reconcile operators.ReconcileOptions

	// Sources, if set, calls hold for each source that holds something or has not joined yet.
	Sources func(hold Hold)

	// Attempts, if set, calls hold for each controller that holds requests or runs attempts. By
	// default all requests and attempts count.
	Attempts func(hold Hold)
}

// Hold notes that a stage holds something: what in the stage holds it, such as a kind or a
// controller, and how many items it holds.
type Hold func(of string, held int64)

// Pipeline is one assembled pipeline. Create it with [New] and call Run once.
type Pipeline struct {
	options    Options
	stages     []*stage
	sent       func() int64                     // what the last stage in the list has sent, while stages are added
	attempts   streams.Stream[operators.Result] // all stages, from the events to the results
	asked      *streams.Queue[operators.Request]
	intake     intake
	reconciles operators.StageStats
	handled    atomic.Int64 // results
	unfinished operators.Unfinished
	active     chan struct{} // has a token when something happened

	events  *streams.Subject[streams.Event]
	changes *streams.Subject[streams.Change]
	results *streams.Subject[operators.Result]
}

// New assembles the pipeline from events to results. It returns an error that names the option
// that is missing or out of its range.
func New(events streams.Stream[streams.Event], options Options) (*Pipeline, error) {
	if err := options.validate(); err != nil {
		return nil, fmt.Errorf("pipeline: %w", err)
	}
	p := &Pipeline{
		options: options,
		asked:   streams.NewQueue[operators.Request](),
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
	p.finish()
	return p, nil
}

func (o Options) validate() error {
	switch {
	case o.Cache == nil || o.Rules == nil || o.Controllers == nil:
		return errors.New("Cache, Rules and Controllers are required")
	case o.Reconcile.Stats != nil || o.Reconcile.Received != nil || o.Reconcile.Unfinished != nil:
		return errors.New("Reconcile.Stats, Reconcile.Received and Reconcile.Unfinished are set by the pipeline; leave them out")
	}
	if err := (operators.DebounceOptions{Window: o.Window, Burst: o.Burst}).Validate(); err != nil {
		return err
	}
	if err := o.Reconcile.Validate(); err != nil {
		return err
	}
	return validateStages(o.Stages)
}

// intake counts what the stages have taken apart that run in the goroutine of Reconcile's intake.
// The counts of an item become visible when all that came of it was taken in.
type intake struct {
	events, asked, retried atomic.Int64 // taken apart, but not taken in
	taken                  atomic.Int64 // events that were taken in
	retries                atomic.Int64 // requests of rules that were asked again, that were taken in
	asking                 atomic.Int64 // requests of Ask, until they are taken in
}

// received notes that everything that was taken apart was also taken in.
func (p *Pipeline) received() {
	p.intake.taken.Add(p.intake.events.Swap(0))
	p.intake.asking.Add(-p.intake.asked.Swap(0))
	p.intake.retries.Add(p.intake.retried.Swap(0))
	p.options.Cache.Reconsider() // An event that repeats itself ends no calm, but nothing was calm while it was looked at.
}

// Run runs the pipeline until ctx ends, or until its input does. It calls onResults with the
// results of attempts and onError with each failure, one at a time, from its own goroutine. The
// results must not be kept. Results of controllers that were removed before their attempt began
// are left out. When Run returns, all goroutines of the pipeline have returned, and the streams of
// Events, Changes and Results end.
func (p *Pipeline) Run(ctx context.Context, onResults func([]operators.Result), onError func(error)) error {
	defer p.results.End()
	defer p.changes.End()
	defer p.events.End()
	return streams.ForEach(ctx, p.attempts, func(results []operators.Result) { p.handle(results, onResults) }, onError)
}

// Ask adds requests beside those that changes make. It waits only while 16,384 requests wait to be
// taken in, and returns false when ctx ended before there was room. It may be called from any
// goroutine.
func (p *Pipeline) Ask(ctx context.Context, requests ...operators.Request) bool {
	p.intake.asking.Add(int64(len(requests)))
	if p.asked.Put(ctx, requests...) {
		return true
	}
	p.intake.asking.Add(-int64(len(requests)))
	return false
}

// Fail adds a failure, which Run passes to its onError. It waits like Ask.
func (p *Pipeline) Fail(ctx context.Context, err error) bool { return p.asked.Error(ctx, err) }

// Events returns the events that enter the cache, in order, while the stream is observed. The
// pipeline never waits for an observer: one that reads too slowly gets a [streams.Lagged].
// Objects belong to the cache and must not be changed.
func (p *Pipeline) Events() streams.Stream[streams.Event] { return p.events.Stream() }

// Changes returns what events changed in the cache, as Events does. Readers of the cache see a
// change before it is emitted.
func (p *Pipeline) Changes() streams.Stream[streams.Change] { return p.changes.Stream() }

// Results returns the results of all attempts, as Events does.
func (p *Pipeline) Results() streams.Stream[operators.Result] { return p.results.Stream() }
