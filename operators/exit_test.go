package operators_test

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bellerophon-io/bellerophon/operators"
)

func TestAReconcilerThatEndsItsGoroutineFailsThatAttemptAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		flow := &operators.StageStats{}
		var inner context.Context
		attempts := 0
		options := backoff(10*time.Second, time.Hour)
		b := newRigOf(t, map[string]operators.Controller{"pods": {Stats: flow, Reconcile: func(ctx context.Context, request operators.Request) (time.Duration, error) {
			if request.Name == "good" {
				return 0, nil
			}
			if attempts++; attempts > 2 {
				return 0, nil
			}
			if inner != nil && inner.Err() == nil {
				t.Error("the context of the first attempt has not ended")
			}
			inner = ctx
			operators.RecordWrite(ctx, operators.Write{Verb: "create", Key: podKey("b"), ResourceVersion: "9"})
			wait(ctx, time.Second)
			defer func() { _ = recover() }() // A deferred function of the reconciler may recover.
			runtime.Goexit()
			return 0, nil
		}}}, options)
		b.in.send(request("a", "1"))
		b.in.send(request("good"))
		pass(time.Second)
		b.wantFlow("during the backoff", 1, 0)
		if flow.Out.Load() != 2 || flow.Waiting.Load() != 1 || flow.Running.Load() != 0 {
			t.Errorf("of the controller %d are done, %d wait and %d run", flow.Out.Load(), flow.Waiting.Load(), flow.Running.Load())
		}
		pass(time.Hour)
		// A new worker has replaced the only one, which exited.
		b.wantAttempts("0s a | 1s good | 11s a | 32s a")
		b.wantResults("a:error#1", "good:success#1", "a:error#2", "a:success#3")
		first := b.results[0]
		if !errors.Is(first.Err, operators.ErrExited) || first.Duration != time.Second || first.RequeueAfter != 10*time.Second {
			t.Errorf("the attempt failed with %v after %v, and is due again after %v", first.Err, first.Duration, first.RequeueAfter)
		}
		if want := "[{create Pod ns/b 9 false}]"; described(first.Writes) != want {
			t.Errorf("it wrote %v, want %v", first.Writes, want)
		}
		if inner.Err() == nil {
			t.Error("the context of the second attempt has not ended")
		}
		b.stop()
	})
}

func TestAReconcilerThatEndsItsGoroutineDuringTheShutdownIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newRig(t, func(ctx context.Context, _ operators.Request) (time.Duration, error) {
			wait(ctx, time.Second)
			runtime.Goexit()
			return 0, nil
		}, operators.ReconcileOptions{Workers: 3})
		b.in.send(request("a"), request("b"), request("c"), request("d"))
		b.stop()
		if len(b.results) != 3 || time.Since(b.started) != time.Second {
			t.Errorf("the stream ended after %v with %d results, want those of the attempts in flight", time.Since(b.started), len(b.results))
		}
	})
}
