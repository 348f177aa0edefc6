package operators_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bellerophon-io/bellerophon/operators"
	"github.com/bellerophon-io/bellerophon/streams"
)

func TestDebounceIsBusyWhileItTakesABatchIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		flow := &operators.StageStats{}
		in := newFeed[streams.Event]()
		var during []string
		// The receiver of a batch calls this function, when it takes the item apart.
		events := streams.MapOnReceive(in.stream(), func(batch []streams.Event) ([]streams.Event, error) {
			during = append(during, fmt.Sprint(flow.Running.Load()))
			return batch, nil
		})
		items := operators.Debounce(events, operators.DebounceOptions{Window: time.Second, Stats: flow}).Observe(t.Context())
		check := func(when string, waiting int64) {
			t.Helper()
			if flow.Running.Load() != 0 || flow.Waiting.Load() != waiting {
				t.Errorf("%s %d wait and %d run, want %d and none", when, flow.Waiting.Load(), flow.Running.Load(), waiting)
			}
		}
		in.send(event("a@1"))
		check("after one that passes", 0)
		in.send(event("a@2"))
		check("after one that is held", 1)
		in.send(event("a@3"))
		check("after one that is coalesced", 1)
		close(in)
		for range items { // Read to the end.
		}
		check("at the end", 0)
		if got := fmt.Sprint(during); got != "[1 1 1]" {
			t.Errorf("while batches were taken apart %s ran, want 1 each", got)
		}
	})
}

// A reader that finds an item counted as In finds it inside, or counted as Out.
func TestAnItemThatIsInIsNeverMissed(t *testing.T) {
	const items = 20000
	t.Run("Reconcile", func(t *testing.T) {
		flow, own := &operators.StageStats{}, &operators.StageStats{}
		idle := func(_ context.Context, _ operators.Request) (time.Duration, error) { return 0, nil }
		controllers := operators.NewControllers(map[string]operators.Controller{"pods": {Reconcile: idle, Stats: own}})
		in := inBatches(items, 1, func(i int) operators.Request { return request(fmt.Sprint(i)) })
		results := operators.Reconcile(in, controllers, operators.ReconcileOptions{Stats: flow, Workers: 2})
		neverMissed(t, results, func(flow *operators.StageStats) int64 { return flow.Waiting.Load() + flow.Running.Load() }, flow, own)
	})
	t.Run("Debounce", func(t *testing.T) {
		flow := &operators.StageStats{}
		in := inBatches(items, 1, func(i int) streams.Event { return event(fmt.Sprintf("p%d@1", i)) })
		neverMissed(t, operators.Debounce(in, operators.DebounceOptions{Stats: flow}),
			func(flow *operators.StageStats) int64 { return flow.Running.Load() + flow.Waiting.Load() }, flow)
	})
}

// neverMissed reads the counts while a stream is observed. inside reads what is inside, in the
// order in which items pass.
func neverMissed[T any](t *testing.T, stream streams.Stream[T], inside func(*operators.StageStats) int64, flows ...*operators.StageStats) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	missed := make([]int, len(flows))
	watcher := parallel(t, func(context.Context) {
		for ctx.Err() == nil {
			for i, flow := range flows {
				in := flow.In.Load()
				if inside := inside(flow); inside+flow.Out.Load() < in {
					missed[i]++
				}
			}
		}
	})
	if err := streams.ForEach(t.Context(), stream, func([]T) {}, func(err error) { t.Error(err) }); err != nil {
		t.Error(err)
	}
	cancel()
	_ = watcher.Wait()
	for i, n := range missed {
		if n > 0 {
			t.Errorf("items were missed %d times in flow %d", n, i)
		}
	}
}

func TestWhatGoesBetweenRunningAndWaitingIsBusyAllTheTime(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	flow := &operators.StageStats{}
	started, attempts, missed := make(chan struct{}), 0, 0
	controllers := only(func(context.Context, operators.Request) (time.Duration, error) {
		if attempts++; attempts == 1 {
			close(started)
		}
		if attempts < 50000 {
			return time.Nanosecond, nil
		}
		cancel()
		return time.Nanosecond, nil
	})
	watcher := parallel(t, func(context.Context) {
		<-started
		for ctx.Err() == nil {
			if !flow.Busy() && ctx.Err() == nil {
				missed++
			}
		}
	})
	in := streams.Create(func(ctx context.Context, out streams.Sink[operators.Request]) {
		out.Send([]operators.Request{request("a")})
		<-ctx.Done()
	})
	_, errs := streams.Collect(ctx, operators.Reconcile(in, controllers, operators.ReconcileOptions{Stats: flow, Workers: 2}))
	_ = watcher.Wait()
	if missed > 0 || len(errs) > 0 {
		t.Errorf("it was not busy %d times, and failed with %v", missed, errs)
	}
}
