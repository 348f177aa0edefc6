package operators_test

import (
	"context"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/operators"
	"github.com/bellerophon-io/bellerophon/streams"
)

func TestTheBackoffStaysAtItsMaximumHoweverOftenAnAttemptFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const failures = 1100 // 2^1100 overflows every type in which a wait may be counted.
		b := newRig(t, failing(failures, errFailed), backoff(time.Minute, 24*time.Hour))
		b.in.send(request("a"))
		pass(failures * 24 * time.Hour)
		if len(b.results) != failures+1 {
			t.Fatalf("there were %d attempts, want %d", len(b.results), failures+1)
		}
		for i, result := range b.results[11:failures] { // 2^11 minutes are more than a day.
			if result.RequeueAfter != 24*time.Hour {
				t.Fatalf("after %d failures it waits %v, want 24h", i+12, result.RequeueAfter)
			}
		}
		b.stop()
	})
}

func TestOfDelayedAttemptsTheOneThatIsDueFirstGoesFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		delays := map[string]time.Duration{"a": time.Second, "b": 500 * time.Millisecond, "c": 250 * time.Millisecond, "d": 100 * time.Millisecond}
		b := newRig(t, func(_ context.Context, request operators.Request) (time.Duration, error) {
			delay := delays[request.Name]
			delete(delays, request.Name)
			return delay, nil
		}, operators.ReconcileOptions{Workers: 1})
		b.in.send(request("a"), request("b"), request("c"))
		pass(200 * time.Millisecond)
		b.in.send(request("d")) // It is due at 300 ms, between the others, and starts to wait after them.
		pass(2 * time.Second)
		b.wantAttempts("0s a b c | 200ms d | 250ms c | 300ms d | 500ms b | 1s a")
		b.stop()
	})
}

func TestAnObjectThatIsAskedForAgainKeepsItsPlaceInTheLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newRig(t, func(ctx context.Context, _ operators.Request) (time.Duration, error) {
			wait(ctx, time.Second)
			return 0, nil
		}, operators.ReconcileOptions{Workers: 1})
		b.in.send(request("a"), request("b"), request("c"), request("b"), request("c"))
		pass(time.Second / 2)
		b.in.send(request("a")) // It runs, and then goes behind the tasks that wait.
		b.in.send(request("b"), request("d"))
		pass(time.Minute)
		b.wantAttempts("0s a | 1s b | 2s c | 3s d | 4s a")
		b.stop()
	})
}

// The causes of a request must not stay in memory as long as the queue.
func TestTheCausesOfARequestAreFreedWhenItIsDone(t *testing.T) {
	in := make(chan []operators.Request)
	done := make(chan struct{}, 1)
	requests := streams.Create(func(ctx context.Context, out streams.Sink[operators.Request]) {
		for {
			select {
			case <-ctx.Done():
				return
			case batch := <-in:
				out.Send(batch)
			}
		}
	})
	results := operators.Reconcile(requests, only(func(context.Context, operators.Request) (time.Duration, error) { return 0, nil }), operators.ReconcileOptions{})
	reader := parallel(t, func(ctx context.Context) {
		_ = streams.ForEach(ctx, results, func(results []operators.Result) {
			streams.Recycle(results)
			done <- struct{}{}
		}, func(error) {})
	})
	freed := make(chan struct{})
	func() {
		made := request("a", "1")
		runtime.AddCleanup(&made.Causes[0], func(struct{}) { close(freed) }, struct{}{})
		in <- []operators.Request{made}
	}()
	<-done
	in <- []operators.Request{request("b", "2")} // Recycled batches use their slots again.
	<-done
	collector := lifecycle.New(t.Context())
	collector.Go("collector", func(ctx context.Context) error {
		for ctx.Err() == nil {
			runtime.GC()
		}
		return nil
	})
	select {
	case <-freed:
	case <-time.After(10 * time.Second):
		t.Error("the causes are still in memory")
	}
	collector.Stop()
	if err := collector.Wait(); err != nil {
		t.Error(err)
	}
	reader.Stop()
}
