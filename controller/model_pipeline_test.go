package controller_test

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/cache"
	"github.com/bellerophon-io/bellerophon/controller/pipeline"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/operators"
	"github.com/bellerophon-io/bellerophon/streams"
	"k8s.io/apimachinery/pkg/types"
)

// gate lets pass, or does not. The zero gate is open.
type gate struct{ shut atomic.Pointer[chan struct{}] }

func (g *gate) pass() {
	if until := g.shut.Load(); until != nil {
		<-*until
	}
}

func (g *gate) isOpen() bool { return g.shut.Load() == nil }

func (g *gate) toggle() {
	until := make(chan struct{})
	if !g.shut.CompareAndSwap(nil, &until) {
		g.open()
	}
}

func (g *gate) open() {
	if until := g.shut.Swap(nil); until != nil {
		close(*until)
	}
}

// lived is a schedule that is lived through: a world, and the real pipeline beside it.
type lived struct {
	cache    *cache.Cache
	stores   []*cache.Store
	feeds    []chan any // of a source: batches of events, and errors
	pipeline *pipeline.Pipeline
	ctx      context.Context
	end      context.CancelFunc
	group    *lifecycle.Group

	events, requests, results gate

	mu       sync.Mutex // of what follows
	world    *world
	removals map[removal]int // how often changes reported a deletion
	seen     map[types.UID]bool
	errors   int
	plans    []rune // of the next reconciles: x, p or t
	running  map[target]bool
	read     map[target][]streams.Object // what the last reconcile that succeeded read

	// Only the goroutine that plays the schedule uses the fields below.
	selected *teller  // whose steps they are
	prefixes string   // of the next change
	late     []func() // answers
	failing  bool     // a reconcile was to fail
	sent     int      // errors
}

type removal struct{ kind, version int }

// target is a controller and an object of it.
type target struct {
	controller string
	name       types.NamespacedName
}

var (
	errPlanned = errors.New("planned")
	noLog      = slog.New(slog.DiscardHandler)
	byColour   = cache.LabelIndexer("colour")
)

// newLived starts the pipeline.
func newLived(t *testing.T, window time.Duration) (*lived, error) {
	made, err := cache.New(cache.LoopOptions{}, noLog)
	if err != nil {
		return nil, err
	}
	l := &lived{
		cache: made, world: newWorld(), removals: map[removal]int{}, seen: map[types.UID]bool{},
		running: map[target]bool{}, read: map[target][]streams.Object{},
	}
	l.ctx, l.end = context.WithCancel(t.Context())
	l.selected = l.world.sources[0]
	var inputs []streams.Stream[streams.Event]
	for _, kind := range modelKinds {
		l.stores = append(l.stores, made.Add(kind, byColour))
		feed := make(chan any)
		l.feeds = append(l.feeds, feed)
		inputs = append(inputs, fed(feed))
	}
	if l.pipeline, err = l.assemble(inputs, window); err != nil {
		return nil, err
	}
	l.group = lifecycle.New(l.ctx)
	l.group.Go("pipeline", func(ctx context.Context) error {
		return l.pipeline.Run(ctx, func([]operators.Result) { l.results.pass() }, l.onError)
	})
	return l, nil
}

// fed is the stream of what comes through a channel, to its end.
func fed(feed <-chan any) streams.Stream[streams.Event] {
	return streams.Create(func(ctx context.Context, out streams.Sink[streams.Event]) {
		for {
			select {
			case <-ctx.Done():
				return
			case item, open := <-feed:
				if !open {
					return
				}
				switch item := item.(type) {
				case []streams.Event:
					out.Send(item)
				case error:
					out.Error(item)
				}
			}
		}
	})
}

// assemble makes the pipeline of a manager, with gates in it: in a stage before the cache, where
// rules are asked, and where results are handled. The horse of a hero has its name.
func (l *lived) assemble(inputs []streams.Stream[streams.Event], window time.Duration) (*pipeline.Pipeline, error) {
	stats := &operators.StageStats{}
	gated := func(events streams.Stream[streams.Event]) streams.Stream[streams.Event] {
		return operators.Debounce(streams.MapOnReceive(events, func(batch []streams.Event) ([]streams.Event, error) {
			l.events.pass()
			return batch, nil
		}), operators.DebounceOptions{Stats: stats})
	}
	visible := func(change streams.Change) bool {
		l.onChanges([]streams.Change{change})
		l.requests.pass()
		return true
	}
	return pipeline.New(streams.Merge(inputs...), pipeline.Options{
		Cache: l.cache,
		Rules: operators.NewRules(
			operators.Rule{Controller: "heroes", Kind: modelKinds[0], When: visible},
			operators.Rule{Controller: "heroes", Kind: modelKinds[1], When: visible},
			operators.Rule{Controller: "weapons", Kind: modelKinds[2], When: visible}),
		Controllers: operators.NewControllers(map[string]operators.Controller{
			"heroes":  {Reconcile: l.reads(0, 1)},
			"weapons": {Reconcile: l.reads(2)},
		}),
		Window:    window,
		Stages:    []pipeline.Stage{{Name: "gate", Stats: stats, Run: gated}},
		Reconcile: operators.ReconcileOptions{Workers: 2},
	})
}

// count returns what a stage of the pipeline has done so far.
func (l *lived) count(name string) pipeline.StageCount {
	for _, count := range l.pipeline.Counts() {
		if count.Name == name {
			return count
		}
	}
	panic("there is no stage " + name)
}

// reads is a reconciler that reads what concerns an object, and notes it if it succeeds.
func (l *lived) reads(kinds ...int) operators.Reconciler {
	return func(_ context.Context, request operators.Request) (time.Duration, error) {
		to := target{request.Controller, request.NamespacedName}
		plan := l.started(to)
		var read []streams.Object
		for _, kind := range kinds {
			object, _ := l.stores[kind].Get(request.NamespacedName)
			read = append(read, object)
		}
		if plan == 't' {
			<-time.After(10 * time.Millisecond)
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.running, to)
		switch plan {
		case 'p':
			panic(errPlanned)
		case 'x':
			return 0, errPlanned
		}
		l.read[to] = read
		return 0, nil
	}
}

// started is what the reconcile that starts has to do.
func (l *lived) started(to target) (plan rune) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.running[to] {
		l.world.broken("%v is reconciled twice at once", to)
	}
	l.running[to] = true
	if len(l.plans) > 0 {
		plan, l.plans = l.plans[0], l.plans[1:]
	}
	return plan
}

func (l *lived) onError(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !errors.Is(err, errPlanned) {
		l.world.broken("an error that no source sent: %w", err)
	}
	l.errors++
}
