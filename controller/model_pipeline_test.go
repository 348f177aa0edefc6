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
	cache     *cache.Cache
	stores    []*cache.Store
	feeds     []chan any // of a source: batches of events, and errors
	debounce  operators.StageStats
	reconcile operators.StageStats
	ctx       context.Context
	end       context.CancelFunc
	group     *lifecycle.Group

	events, requests, results gate

	mu       sync.Mutex // of what follows
	world    *world
	removals map[removal]int // how often changes told of a deletion
	seen     map[types.UID]bool
	errors   int
	plans    []rune // of the next reconciles: x, p or t
	running  map[target]bool
	read     map[target][]streams.Object // what the last reconcile that succeeded read

	// What follows belongs to the one who plays the schedule.
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
	l.group = lifecycle.New(l.ctx)
	l.group.Go("pipeline", func(ctx context.Context) error {
		return streams.ForEach(ctx, l.pipeline(inputs, window),
			func([]operators.Result) { l.results.pass() },
			l.onError)
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

// pipeline is that of a manager, with gates in it. The horse of a hero has its name.
func (l *lived) pipeline(inputs []streams.Stream[streams.Event], window time.Duration) streams.Stream[operators.Result] {
	events := operators.Debounce(streams.Merge(inputs...), operators.DebounceOptions{Window: window, Stats: &l.debounce})
	events = gated(events, &l.events)
	changes := streams.MapBatches(events, func(batch []streams.Event) ([]streams.Change, error) {
		return l.onChanges(l.cache.Apply(batch)), nil
	})
	requests := operators.Trigger(changes, operators.NewRules(
		operators.Rule{Controller: "heroes", Kind: modelKinds[0]},
		operators.Rule{Controller: "heroes", Kind: modelKinds[1]},
		operators.Rule{Controller: "weapons", Kind: modelKinds[2]}))
	requests = gated(requests, &l.requests)
	return operators.Reconcile(requests, operators.NewControllers(map[string]operators.Controller{
		"heroes":  {Reconcile: l.reads(0, 1)},
		"weapons": {Reconcile: l.reads(2)},
	}), operators.ReconcileOptions{Workers: 2, Stats: &l.reconcile})
}

// gated is a stage that stops while its gate is shut. It has a goroutine of its own.
func gated[T any](in streams.Stream[T], through *gate) streams.Stream[T] {
	passed := streams.MapBatches(in, func(batch []T) ([]T, error) {
		through.pass()
		return batch, nil
	})
	return streams.Batch(passed, 256)
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
