package operators_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bellerophon-io/bellerophon/operators"
	"github.com/bellerophon-io/bellerophon/streams"
)

func TestWhatIsInFlightAtTheEndOfTheContextFinishesAndIsDelivered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newRig(t, takes(10*time.Second), operators.ReconcileOptions{Workers: 2})
		b.in.send(request("a"), request("b"), request("c"))
		b.in.send(request("a"))
		pass(time.Second)
		b.stop()
		if took := time.Since(b.started); took != 10*time.Second {
			t.Errorf("the stream ended after %v, want 10s, with the attempts in flight", took)
		}
		slices.SortFunc(b.results, func(x, y operators.Result) int { return strings.Compare(x.Name, y.Name) })
		b.wantResults("a:success#1", "b:success#1")
		// c and the second request for a are left to the next start.
		if attempts := b.attempts.String(); attempts != "0s a b" && attempts != "0s b a" {
			t.Errorf("attempts %s, want one each of a and b", attempts)
		}
	})
}

func TestAfterTheGraceTheContextOfAttemptsEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var after time.Duration
		var started time.Time
		b := newRig(t, func(ctx context.Context, _ operators.Request) (time.Duration, error) {
			started = time.Now()
			<-ctx.Done()
			after = time.Since(started)
			return 0, context.Cause(ctx)
		}, operators.ReconcileOptions{Grace: 5 * time.Second})
		b.in.send(request("a"))
		pass(time.Second)
		b.stop()
		if after != 6*time.Second || time.Since(started) != 6*time.Second {
			t.Errorf("the attempt ended after %v and the stream after %v, want 6s", after, time.Since(started))
		}
	})
}

func TestAnAttemptKeepsTheValuesOfTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type key struct{}
		ctx, cancel := context.WithCancel(context.WithValue(t.Context(), key{}, "value"))
		defer cancel()
		var got any
		controllers := map[string]operators.Controller{"pods": {Reconcile: func(ctx context.Context, request operators.Request) (time.Duration, error) {
			got = ctx.Value(key{})
			if of, ok := operators.RequestOf(ctx); !ok || of.Name != request.Name {
				t.Errorf("RequestOf the context is %v, %v", of, ok)
			}
			return 0, nil
		}}}
		_, errs := streams.Collect(ctx, operators.Reconcile(streams.Of(request("a")), operators.NewControllers(controllers), one))
		if got != "value" || len(errs) > 0 {
			t.Errorf("got %v and %v", got, errs)
		}
		if _, ok := operators.RequestOf(ctx); ok {
			t.Error("a context without an attempt has a request")
		}
		operators.RecordWrite(ctx, operators.Write{}) // It does nothing.
	})
}

func TestAttemptsThatIgnoreTheirContextAreWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newRig(t, func(context.Context, operators.Request) (time.Duration, error) {
			<-time.After(time.Hour)
			return 0, nil
		}, operators.ReconcileOptions{Grace: time.Second})
		b.in.send(request("a"))
		b.stop()
		if took := time.Since(b.started); took != time.Hour {
			t.Errorf("the stream ended after %v, while an attempt was running", took)
		}
	})
}

func TestTheStreamEndsWithTheLastOfManyAttemptsThatOutlastTheGrace(t *testing.T) {
	const attempts = 8
	// The first half of the attempts ends with the context. The others end one after another, a
	// second apart.
	stubborn := func(ctx context.Context, request operators.Request) (time.Duration, error) {
		<-ctx.Done()
		if late := time.Duration(request.Name[0]-'a') - attempts/2; late > 0 {
			<-time.After(late * time.Second)
		}
		return 0, ctx.Err()
	}
	options := operators.ReconcileOptions{Workers: attempts, Grace: 5 * time.Second, Stats: &operators.StageStats{}}
	requests := func() (all []operators.Request) {
		for i := range attempts {
			all = append(all, request(string(rune('a'+i))))
		}
		return all
	}
	const want = 5*time.Second + (attempts/2-1)*time.Second
	bubble(t, "with a receiver", func(t *testing.T) {
		b := newRig(t, stubborn, options)
		b.in.send(requests()...)
		b.stop()
		if took := time.Since(b.started); took != want {
			t.Errorf("the stream ended after %v, want %v", took, want)
		}
	})
	bubble(t, "without one", func(t *testing.T) {
		in := newFeed[operators.Request]()
		ctx, cancel := context.WithCancel(t.Context())
		items := operators.Reconcile(in.stream(), only(stubborn), options).Observe(ctx)
		for len(items) < cap(items) {
			in.send(request("filler/x"))
		}
		in.send(requests()...)
		cancel()
		pass(want - time.Millisecond)
		if running := options.Stats.Running.Load(); running != 1 {
			t.Errorf("%d attempts are in flight, want the last", running)
		}
		pass(time.Millisecond)
		for range cap(items) {
			<-items
		}
		select {
		case item, open := <-items:
			if open {
				t.Errorf("%v came when the grace was over", item)
			}
		default:
			t.Error("the stream has not ended with the last attempt")
		}
	})
}

func TestNobodyReadingDoesNotHoldUpTheShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := newFeed[operators.Request]()
		controllers := only(takes(time.Second))
		ctx, cancel := context.WithCancel(t.Context())
		items := operators.Reconcile(in.stream(), controllers, operators.ReconcileOptions{Workers: 1, Grace: 5 * time.Second}).Observe(ctx)
		for len(items) < cap(items) {
			in.send(request("filler"))
			pass(time.Second)
		}
		in.send(request("a"))
		cancel()
		pass(5 * time.Second)
		for range cap(items) {
			<-items
		}
		if item, open := <-items; open {
			t.Errorf("%v came when the grace was over", item)
		}
	})
}

func TestTheEndOfTheInputDrainsTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newRig(t, takes(time.Second), one)
		b.in.send(request("a"), request("b"), request("c"))
		b.in.send(request("a"))
		b.drain()
		b.wantAttempts("0s a | 1s b | 2s c | 3s a")
		b.wantResults("a:success#1", "b:success#1", "c:success#1", "a:success#1")
	})
}

func TestAfterTheEndOfTheInputNothingIsRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		options := backoff(time.Second, time.Hour)
		options.Workers = 3
		b := newRig(t, func(ctx context.Context, request operators.Request) (time.Duration, error) {
			switch request.Name {
			case "bad":
				return 0, errFailed
			case "again":
				return time.Second, nil
			}
			wait(ctx, 10*time.Second)
			return 0, errFailed
		}, options)
		b.in.send(request("bad"))
		b.in.send(request("again"))
		b.in.send(request("slow"))
		b.drain()
		if attempts := b.attempts.String(); len(strings.Fields(attempts)) != 4 || !strings.HasPrefix(attempts, "0s ") {
			t.Errorf("attempts %s, want one each of bad, again and slow", attempts)
		}
		if took := time.Since(b.started); took != 10*time.Second {
			t.Errorf("the stream ended after %v, want 10s", took)
		}
	})
}

func TestAPanicAfterTheGraceDoesNoHarm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var last error
		b := newRig(t, func(ctx context.Context, _ operators.Request) (time.Duration, error) {
			<-ctx.Done()
			last = context.Cause(ctx)
			panic(last)
		}, operators.ReconcileOptions{Grace: time.Second, Timeout: time.Hour})
		b.in.send(request("a"))
		b.stop()
		if !errors.Is(last, context.Canceled) {
			t.Errorf("the context ended with %v", last)
		}
	})
}
