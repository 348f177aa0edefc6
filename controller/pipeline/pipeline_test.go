package pipeline

import (
	"context"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bellerophon-io/bellerophon/cache"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/operators"
	"github.com/bellerophon-io/bellerophon/streams"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var kind = schema.GroupKind{Kind: "ConfigMap"}

// rig is a pipeline whose events a test sends by hand.
type rig struct {
	*Pipeline
	t      *testing.T
	in     chan []streams.Event
	group  *lifecycle.Group
	mu     sync.Mutex
	names  []string // of the objects that were reconciled
	events int      // sent so far
}

// runRig runs a pipeline with the given stages in virtual time.
func runRig(t *testing.T, run func(*rig), stages ...Stage) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		l := &rig{t: t, in: make(chan []streams.Event)}
		held, err := cache.New(cache.LoopOptions{}, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		held.Add(kind)
		source := streams.Create(func(ctx context.Context, out streams.Sink[streams.Event]) {
			for {
				select {
				case <-ctx.Done():
					return
				case batch, open := <-l.in:
					if !open || !out.Send(batch) {
						return
					}
				}
			}
		})
		reconcile := func(_ context.Context, request operators.Request) (time.Duration, error) {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.names = append(l.names, request.Name)
			return 0, nil
		}
		l.Pipeline, err = New(source, Options{
			Cache: held, Stages: stages,
			Rules:       operators.NewRules(operators.Rule{Controller: "c", Kind: kind}),
			Controllers: operators.NewControllers(map[string]operators.Controller{"c": {Reconcile: reconcile}}),
			Reconcile:   operators.ReconcileOptions{Workers: 1},
		})
		if err != nil {
			t.Fatal(err)
		}
		held.Follow(l.Pipeline)
		l.group = lifecycle.New(t.Context())
		l.group.Go("pipeline", func(ctx context.Context) error {
			return l.Run(ctx, func([]operators.Result) {}, func(err error) { t.Errorf("the pipeline reports %v", err) })
		})
		run(l)
		close(l.in)
		if err := l.group.Wait(); err != nil {
			t.Error(err)
		}
	})
}

// send sends one event for each of the named objects, in one batch, and waits until all is idle.
func (l *rig) send(names ...string) {
	l.in <- l.batch(names...)
	synctest.Wait()
}

// batch returns one event for each of the named objects.
func (l *rig) batch(names ...string) (batch []streams.Event) {
	for _, name := range names {
		l.events++
		version := strconv.Itoa(l.events)
		object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "n", ResourceVersion: version}}
		batch = append(batch, streams.Event{
			Type: streams.Applied, Source: "test", Key: streams.KeyOf(kind, object), Object: object, ResourceVersion: version, Received: time.Now(),
		})
	}
	return batch
}

// reconciled checks the names of all objects that were reconciled so far, in order.
func (l *rig) reconciled(want ...string) {
	l.t.Helper()
	synctest.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	if !slices.Equal(l.names, want) {
		l.t.Errorf("%v were reconciled, want %v", l.names, want)
	}
}

// drop returns a stage that drops the events of objects whose names have a prefix.
func drop(prefix string) Stage {
	return Stage{Name: "drop " + prefix, Run: func(events streams.Stream[streams.Event]) streams.Stream[streams.Event] {
		return streams.MapOnReceive(events, func(batch []streams.Event) ([]streams.Event, error) {
			return slices.DeleteFunc(batch, func(event streams.Event) bool { return strings.HasPrefix(event.Key.Name, prefix) }), nil
		})
	}}
}

func TestStagesOfTheUsersOwnSeeWhatTheOneBeforeThemLeaves(t *testing.T) {
	runRig(t, func(l *rig) {
		l.send("a1", "b1", "c1")
		l.send("a2")
		l.send("b2", "c2")
		l.reconciled("c1", "c2")
		if l.Busy() {
			t.Errorf("the pipeline waits for %v, although all events are done or dropped", l.Pending(cache.Settled))
		}
		counts := l.Counts()
		want := []StageCount{
			{"debounce", 6, 6, 0}, {"drop a", 6, 4, 0}, {"drop b", 4, 2, 0}, {"cache", 2, 2, 0}, {"trigger", 2, 2, 0}, {"reconcile", 2, 2, 0},
		}
		if !slices.Equal(counts, want) {
			t.Errorf("the counts are %v, want %v", counts, want)
		}
	}, drop("a"), drop("b"))
}

// A stage without Stats counts as busy while its function runs.
func TestAFunctionOfAStageThatTakesTimeIsBusy(t *testing.T) {
	slow := Stage{Name: "slow", Run: func(events streams.Stream[streams.Event]) streams.Stream[streams.Event] {
		return streams.MapOnReceive(events, func(batch []streams.Event) ([]streams.Event, error) {
			<-time.After(time.Minute)
			return batch[:0], nil
		})
	}}
	runRig(t, func(l *rig) {
		l.send("a")
		<-time.After(time.Second)
		if pending := l.Pending(cache.Settled); !l.Busy() || !slices.Equal(pending, []string{"slow (1)"}) {
			t.Errorf("the pipeline waits for %v, want for the stage", pending)
		}
		<-time.After(time.Minute)
		if l.Busy() {
			t.Errorf("the pipeline still waits for %v", l.Pending(cache.Settled))
		}
		l.reconciled()
	}, slow)
}

// A stage with goroutines of its own updates its Stats itself.
func TestAStageThatHoldsEventsBackIsBusy(t *testing.T) {
	stats := &operators.StageStats{}
	delay := Stage{Name: "delay", Stats: stats, Run: func(events streams.Stream[streams.Event]) streams.Stream[streams.Event] {
		return operators.Debounce(events, operators.DebounceOptions{Window: time.Minute, Stats: stats})
	}}
	runRig(t, func(l *rig) {
		l.send("a")
		l.send("a")
		l.reconciled("a")
		if pending := l.Pending(cache.Settled); !slices.Equal(pending, []string{"delay (1)"}) {
			t.Errorf("the pipeline waits for %v, want for the stage", pending)
		}
		<-time.After(2 * time.Minute)
		l.reconciled("a", "a")
		if l.Busy() {
			t.Errorf("the pipeline still waits for %v", l.Pending(cache.Settled))
		}
	}, delay)
}

func TestOpenEndsFollowThePipelineWithoutHoldingItUp(t *testing.T) {
	runRig(t, func(l *rig) {
		group := lifecycle.New(l.t.Context())
		never := make(chan struct{})
		var events, changes, results int
		group.Go("events", func(ctx context.Context) error {
			return streams.ForEach(ctx, l.Events(), func(batch []streams.Event) { events += len(batch) }, func(error) {})
		})
		group.Go("changes", func(ctx context.Context) error {
			return streams.ForEach(ctx, l.Changes(), func(batch []streams.Change) { changes += len(batch) }, func(error) {})
		})
		group.Go("results", func(ctx context.Context) error {
			return streams.ForEach(ctx, l.Results(), func(batch []operators.Result) { results += len(batch) }, func(error) {})
		})
		lagged := 0
		group.Go("stalled", func(ctx context.Context) error {
			return streams.ForEach(ctx, l.Events(), func([]streams.Event) { <-never }, func(error) { lagged++ })
		})
		synctest.Wait()
		for range 5000 {
			l.send("a")
		}
		l.reconciled(slices.Repeat([]string{"a"}, 5000)...)
		if events != 5000 || changes != 5000 || results != 5000 {
			t.Errorf("the observers got %d events, %d changes and %d results, want 5000 of each", events, changes, results)
		}
		close(never)
		synctest.Wait()
		if lagged != 1 {
			t.Errorf("the observer that stalled got %d errors, want one", lagged)
		}
		group.Stop()
		if err := group.Wait(); err != nil {
			t.Error(err)
		}
	})
}

func TestRequestsOfAskHoldThePipelineUpUntilTheyAreDone(t *testing.T) {
	runRig(t, func(l *rig) {
		request := operators.Request{Controller: "c"}
		request.Name = "asked"
		if !l.Enqueue(l.t.Context(), request, request) {
			t.Error("Enqueue did not take the requests")
		}
		l.reconciled("asked")
		if l.Busy() {
			t.Errorf("the pipeline waits for %v", l.Pending(cache.Settled))
		}
	})
}

func TestAStepBetweenBatchesComesAfterAllRequestsOfTheEarlierOne(t *testing.T) {
	runRig(t, func(l *rig) {
		during, goOn := make(chan struct{}), make(chan struct{})
		l.options.Cache.OnEcho(func(schema.GroupKind, time.Duration) { // It is called after readers see the batch.
			close(during)
			<-goOn
		})
		store := l.options.Cache.Store(kind)
		written := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "n", ResourceVersion: "1"}}
		store.RecordWrite(written, time.Now(), time.Now())
		l.group.Go("events", func(context.Context) error {
			l.in <- l.batch("a", "b")
			return nil
		})
		<-during
		if store.Len() != 2 {
			t.Fatalf("the batch is not visible: there are %d objects", store.Len())
		}
		added := false
		l.group.Go("step", func(ctx context.Context) error {
			l.RunBetweenBatches(ctx, func() {
				added = true
				l.options.Rules.Add(operators.Rule{Controller: "c", Kind: kind, Map: func(object streams.Object) []types.NamespacedName {
					return []types.NamespacedName{{Name: "later " + object.GetName()}}
				}})
			})
			return nil
		})
		synctest.Wait()
		if added {
			t.Error("the step does not wait for the requests of the batch")
		}
		close(goOn)
		l.reconciled("a", "b")
		if !added {
			t.Error("the step is not called after the batch")
		}
		l.send("c")
		l.reconciled("a", "b", "c", "later c")
	})
}

func TestAStepWaitsNoLongerThanItsContext(t *testing.T) {
	runRig(t, func(l *rig) {
		ctx, cancel := context.WithCancel(l.t.Context())
		cancel()
		blocked := make(chan struct{})
		l.group.Go("step", func(ctx context.Context) error {
			l.RunBetweenBatches(ctx, func() { <-blocked })
			return nil
		})
		synctest.Wait()
		if l.RunBetweenBatches(ctx, func() {}) {
			t.Error("RunBetweenBatches returns true before its function is called")
		}
		close(blocked)
	})
}

func TestAnAttemptThatDidNotBeginGoesNoFurther(t *testing.T) {
	runRig(t, func(l *rig) {
		done := operators.Result{Request: operators.Request{Controller: "c"}, Outcome: operators.Succeeded}
		removed := operators.Result{Request: operators.Request{Controller: "removed"}, Outcome: operators.Ended, Err: operators.Terminal(ErrRemoved)}
		var handled []string
		l.handle([]operators.Result{removed, done, removed}, func(results []operators.Result) {
			for _, result := range results {
				handled = append(handled, result.Controller)
			}
		})
		if !slices.Equal(handled, []string{"c"}) || l.handled.Load() != 3 {
			t.Errorf("the results of %v were handled, want of c alone; %d count, want 3", handled, l.handled.Load())
		}
		l.handled.Store(0)
	})
}

func TestNewNamesTheOptionThatIsWrong(t *testing.T) {
	held, err := cache.New(cache.LoopOptions{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	stage := drop("a")
	for name, test := range map[string]struct {
		change func(*Options)
		want   string
	}{
		"no cache":                {func(o *Options) { o.Cache = nil }, "pipeline: one of Cache, Rules and Controllers is not set; set all three"},
		"a window out of range":   {func(o *Options) { o.Window = time.Hour }, "pipeline: debounce: Window is 1h0m0s"},
		"too many workers":        {func(o *Options) { o.Reconcile.Workers = 5000 }, "pipeline: reconcile: Workers is 5000"},
		"stats of the caller":     {func(o *Options) { o.Reconcile.Stats = &operators.StageStats{} }, "Reconcile.Unfinished; leave them out"},
		"a stage without a name":  {func(o *Options) { o.Stages = []Stage{{Run: stage.Run}} }, "pipeline: stage 0 of Stages has no Name or no Run; set both"},
		"a stage without Run":     {func(o *Options) { o.Stages = []Stage{{Name: "x"}} }, "pipeline: stage 0 of Stages has no Name or no Run; set both"},
		"a stage named cache":     {func(o *Options) { o.Stages = []Stage{{Name: "cache", Run: stage.Run}} }, `a stage of Stages has the name "cache" of another stage`},
		"two stages of one name":  {func(o *Options) { o.Stages = []Stage{stage, stage} }, `a stage of Stages has the name "drop a" of another stage`},
		"a backoff out of bounds": {func(o *Options) { o.Reconcile.Backoff.First = -1 }, "pipeline: backoff: First is -1ns"},
	} {
		t.Run(name, func(t *testing.T) {
			options := Options{Cache: held, Rules: operators.NewRules(), Controllers: operators.NewControllers(nil)}
			test.change(&options)
			if _, err := New(streams.Of[streams.Event](), options); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("the error is %v, want %q in it", err, test.want)
			}
		})
	}
}
