package operators_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bellerophon-io/bellerophon/operators"
	"github.com/bellerophon-io/bellerophon/streams"
)

func TestAnAttemptYieldsAResultWithWhatCausedIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		queued := map[string]time.Duration{}
		b := newRig(t, func(ctx context.Context, request operators.Request) (time.Duration, error) {
			wait(ctx, 3*time.Second)
			queued[request.Name], _ = operators.QueuedOf(ctx)
			operators.RecordWrite(ctx, operators.Write{Verb: "patch", Key: podKey("a"), ResourceVersion: "8"})
			operators.RecordWrite(ctx, operators.Write{Verb: "create", Key: podKey("b"), ResourceVersion: "9"})
			return 0, nil
		}, one)
		b.in.send(request("a", "1"))
		b.wantFlow("during the attempt", 0, 1)
		pass(time.Second)
		b.in.send(request("b", "2"))
		b.wantFlow("with one more", 1, 1)
		pass(time.Second)
		b.in.send(request("b", "3"))
		pass(time.Minute)
		b.wantResults("a:success#1", "b:success#1")
		second := b.results[1]
		if second.Controller != "pods" || len(second.Causes) != 2 || second.Causes[0].ResourceVersion != "2" || second.Causes[1].ResourceVersion != "3" {
			t.Errorf("the second result is of %+v", second.Request)
		}
		if at := second.Received.Sub(b.started); at != time.Second {
			t.Errorf("its oldest cause was received after %v, want 1s", at)
		}
		if second.Queued != 2*time.Second || second.Started.Sub(b.started) != 3*time.Second || second.Duration != 3*time.Second || second.RequeueAfter != 0 {
			t.Errorf("it was queued %v, started after %v, took %v, again after %v", second.Queued, second.Started.Sub(b.started), second.Duration, second.RequeueAfter)
		}
		if len(queued) != 2 || queued["a"] != 0 || queued["b"] != 2*time.Second {
			t.Errorf("the attempts themselves know that they were queued %v", queued)
		}
		if _, within := operators.QueuedOf(t.Context()); within {
			t.Error("without an attempt, something was queued")
		}
		if want := "[{patch Pod ns/a 8 false} {create Pod ns/b 9 false}]"; described(second.Writes) != want {
			t.Errorf("it wrote %v, want %v", second.Writes, want)
		}
		if b.flow.In.Load() != 3 || b.flow.Out.Load() != 2 {
			t.Errorf("%d in, %d out", b.flow.In.Load(), b.flow.Out.Load())
		}
		b.stop()
	})
}

func TestARequestDuringAnAttemptCausesExactlyOneMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newRig(t, takes(10*time.Second), operators.ReconcileOptions{})
		for range 5 {
			b.in.send(request("a", "1"))
			pass(time.Second)
		}
		pass(time.Hour)
		b.wantAttempts("0s a | 10s a")
		if causes := len(b.results[1].Causes); causes != 4 {
			t.Errorf("the second attempt has %d causes, want 4", causes)
		}
		b.stop()
	})
}

func TestControllersTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		controllers := map[string]operators.Controller{}
		for _, name := range []string{"greedy", "modest", "late"} {
			controllers[name] = operators.Controller{Reconcile: takes(time.Second)}
		}
		b := newRigOf(t, controllers, one)
		var requests []operators.Request
		for i := range 6 {
			requests = append(requests, request(fmt.Sprintf("greedy/g%d", i)))
		}
		b.in.send(append(requests, request("modest/m0"), request("modest/m1"))...)
		pass(1500 * time.Millisecond)
		b.in.send(request("late/l0"))
		b.drain()
		b.wantAttempts("0s g0 | 1s m0 | 2s g1 | 3s m1 | 4s l0 | 5s g2 | 6s g3 | 7s g4 | 8s g5")
	})
}

func TestOnePoolServesAllControllers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		controllers := map[string]operators.Controller{"x": {Reconcile: takes(time.Second)}, "y": {Reconcile: takes(time.Second)}}
		b := newRigOf(t, controllers, operators.ReconcileOptions{Workers: 3})
		b.in.send(request("x/a"), request("x/b"), request("x/c"), request("y/a"))
		b.wantFlow("with three workers", 1, 3)
		b.drain()
		if took := time.Since(b.started); took != 2*time.Second {
			t.Errorf("four attempts of 1s took %v, want 2s", took)
		}
	})
}

func TestEachControllerCountsItsOwnFlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		good, bad := &operators.StageStats{}, &operators.StageStats{}
		b := newRigOf(t, map[string]operators.Controller{
			"good": {Reconcile: takes(5 * time.Second), Stats: good},
			"bad":  {Reconcile: failing(100, errFailed), Stats: bad},
			"any":  {Reconcile: takes(0)},
		}, backoff(time.Minute, time.Hour))
		check := func(when, want string) {
			t.Helper()
			got := ""
			for _, flow := range []*operators.StageStats{good, bad} {
				got += fmt.Sprintf("in %d, out %d, waiting %d, running %d; ", flow.In.Load(), flow.Out.Load(), flow.Waiting.Load(), flow.Running.Load())
			}
			if got != want {
				t.Errorf("%s\n%s, want\n%s", when, got, want)
			}
		}
		b.in.send(request("good/a"), request("bad/a"), request("good/b"), request("any/a"), request("nobody/a"))
		check("during the first", "in 2, out 0, waiting 1, running 1; in 1, out 0, waiting 1, running 0; ")
		pass(7 * time.Second)
		check("during the backoff", "in 2, out 1, waiting 0, running 1; in 1, out 1, waiting 1, running 0; ")
		pass(10 * time.Second)
		check("after the second", "in 2, out 2, waiting 0, running 0; in 1, out 1, waiting 1, running 0; ")
		b.in.send(request("good/c"))
		b.stop()
		check("at the end", "in 3, out 3, waiting 0, running 0; in 1, out 1, waiting 0, running 0; ")
	})
}

func TestARequestForAnUnknownControllerIsATerminalFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newRig(t, takes(0), one)
		b.in.send(request("nobody/a"))
		pass(time.Hour)
		b.wantResults("a:terminal#1")
		if want := `no controller is named "nobody"; set it with Controllers.Set`; b.results[0].Err.Error() != want {
			t.Errorf("got %q, want %q", b.results[0].Err, want)
		}
		b.stop()
	})
}

func TestNoAttemptStartsBeforeTheGateOpens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		b := newRig(t, takes(0), operators.ReconcileOptions{Start: gate, Workers: 1})
		b.in.send(request("a", "1"), request("b", "2"))
		pass(time.Minute)
		b.in.send(request("a", "3"))
		b.wantFlow("before the gate opens", 2, 0)
		b.wantAttempts("")
		close(gate)
		pass(0)
		b.wantAttempts("1m0s a b")
		if len(b.results[0].Causes) != 2 || b.results[0].Queued != time.Minute {
			t.Errorf("got %+v", b.results[0])
		}
		b.stop()
	})
}

func TestErrorsPassReconcileBehindTheResultsBeforeThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := newFeed[operators.Request]()
		items := operators.Reconcile(in.stream(), only(takes(0)), one).Observe(t.Context())
		for len(items) < cap(items) { // The receiver stalls.
			in.send(request("filler"))
		}
		in.send(request("a"))
		in <- errFailed
		synctest.Wait()
		close(in)
		var got []string
		for item := range items {
			got = append(got, taken(item))
		}
		if all := strings.Join(got, " "); !strings.HasSuffix(all, "filler:success#1 a:success#1 !failed") {
			t.Errorf("got %v", all)
		}
	})
}

func TestASlowReceiverOfResultsHoldsUpTheAttemptsNotTheRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := newFeed[operators.Request]()
		flow := &operators.StageStats{}
		items := operators.Reconcile(in.stream(), only(takes(0)), operators.ReconcileOptions{Stats: flow}).Observe(t.Context())
		const objects = 5000
		for i := range objects {
			in.send(request(fmt.Sprintf("p%d", i)))
		}
		if out := flow.Out.Load(); flow.In.Load() != objects || out < 1024 || out > 1100 || flow.Running.Load() != 0 {
			t.Errorf("without a reader %d requests were taken in and %d attempts made", flow.In.Load(), out)
		}
		close(in)
		results := 0
		for item := range items {
			results += len(item.V.([]operators.Result))
		}
		if results != objects {
			t.Errorf("got %d results, want %d", results, objects)
		}
	})
}

func TestReconcileRefusesOptionsOutOfRange(t *testing.T) {
	for want, options := range map[string]operators.ReconcileOptions{
		"reconcile: Workers is -1; allowed is 1 to 1024":                 {Workers: -1},
		"reconcile: Workers is 1025; allowed is 1 to 1024":               {Workers: 1025},
		"reconcile: Timeout is 1µs; allowed is 1ms to 24h":               {Timeout: time.Microsecond},
		"reconcile: Timeout is 24h0m0.000000001s; allowed is 1ms to 24h": {Timeout: 24*time.Hour + 1},
		"reconcile: Grace is -1ns; allowed is above 0, up to 10m":        {Grace: -1},
		"reconcile: Grace is 11m0s; allowed is above 0, up to 10m":       {Grace: 11 * time.Minute},
		"backoff: First is 1µs; allowed is 1ms to Max, which is 5m0s":    {Backoff: operators.Backoff{First: time.Microsecond}},
		"backoff: First is 2s; allowed is 1ms to Max, which is 1s":       {Backoff: operators.Backoff{First: 2 * time.Second, Max: time.Second}},
		"backoff: Max is -1ns; allowed is up to 24h":                     {Backoff: operators.Backoff{Max: -1}},
		"backoff: Max is 25h0m0s; allowed is up to 24h":                  {Backoff: operators.Backoff{Max: 25 * time.Hour}},
		"backoff: Jitter is 0.6; allowed is up to 0.5":                   {Backoff: operators.Backoff{Jitter: 0.6}},
	} {
		if err := options.Validate(); err == nil || err.Error() != want {
			t.Errorf("Validate() = %v, want %v", err, want)
		}
		func() {
			defer func() {
				if got := recover(); fmt.Sprint(got) != want {
					t.Errorf("Reconcile panicked with %v, want %v", got, want)
				}
			}()
			operators.Reconcile(streams.Stream[operators.Request]{}, nil, options)
		}()
	}
	if err := (operators.ReconcileOptions{}).Validate(); err != nil {
		t.Error(err)
	}
}
