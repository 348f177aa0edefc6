package operators_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bellerophon-io/bellerophon/operators"
)

// early returns a request that does not wait for Start.
func early(text string, versions ...string) operators.Request {
	made := request(text, versions...)
	made.BeforeSync = true
	return made
}

func TestAnEarlyRequestDoesNotWaitForTheGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		b := newRig(t, takes(time.Second), operators.ReconcileOptions{Start: gate, Workers: 1})
		b.in.send(request("a", "1"), early("b", "2"), request("c", "3"))
		pass(500 * time.Millisecond)
		b.wantFlow("during the early one", 2, 1)
		b.in.send(request("b", "4")) // It waits for the gate, because it is not BeforeSync.
		pass(time.Minute)
		b.wantAttempts("0s b")
		b.in.send(early("c", "5"))
		pass(time.Minute)
		b.wantAttempts("0s b | 1m0.5s c")
		b.wantFlow("before the gate opens", 2, 0)
		if causes := b.results[1].Causes; len(causes) != 2 || b.results[1].Queued != time.Minute+500*time.Millisecond {
			t.Errorf("what had waited and what was early came to %+v", b.results[1])
		}
		close(gate)
		pass(time.Minute)
		b.wantAttempts("0s b | 1m0.5s c | 2m0.5s a | 2m1.5s b")
		b.stop()
	})
}

func TestAnEarlyRequestStaysEarlyWhenItsAttemptAsksForAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		attempts := 0
		again := func(context.Context, operators.Request) (time.Duration, error) {
			if attempts++; attempts < 4 {
				return 10 * time.Second, nil
			}
			return 0, nil
		}
		b := newRig(t, again, operators.ReconcileOptions{Start: gate, Workers: 1})
		b.in.send(early("a", "1"))
		pass(15 * time.Second)
		b.in.send(request("a", "2")) // It takes the place of the attempt that is due at 20 s.
		pass(time.Minute)
		b.wantAttempts("0s a | 10s a | 15s a | 25s a")
		b.in.send(request("a", "3")) // The last attempt asked for nothing, so this one waits.
		pass(time.Minute)
		b.wantAttempts("0s a | 10s a | 15s a | 25s a")
		close(gate)
		pass(time.Minute)
		b.wantAttempts("0s a | 10s a | 15s a | 25s a | 2m15s a")
		b.stop()
	})
}

func TestAtTheEndOfTheInputWhatWaitsForTheGateIsStillDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		b := newRig(t, takes(0), operators.ReconcileOptions{Start: gate})
		b.in.send(request("a"))
		defer time.AfterFunc(time.Minute, func() { close(gate) }).Stop()
		b.drain()
		b.wantAttempts("1m0s a")
	})
}

func TestWhatWaitsForTheGateGoesWithItsController(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		b := newRig(t, takes(0), operators.ReconcileOptions{Start: gate, Workers: 1})
		b.in.send(request("a"), request("b"))
		b.wantFlow("before it is removed", 2, 0)
		b.controllers.Remove("pods")
		pass(0)
		b.wantFlow("after it was removed", 0, 0)
		b.controllers.Set("pods", b.noting(operators.Controller{Reconcile: takes(0)}))
		b.in.send(request("a")) // It reuses the memory of the tasks that were dropped.
		b.wantFlow("of the new one", 1, 0)
		close(gate)
		pass(time.Minute)
		b.wantAttempts("0s a")
		b.stop()
	})
}

func TestWhatWaitsForTheGateAtTheEndIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newRig(t, takes(0), operators.ReconcileOptions{Start: make(chan struct{})})
		b.in.send(request("a"), request("b"))
		b.wantFlow("before the end", 2, 0)
		b.stop()
		b.wantAttempts("")
	})
}
