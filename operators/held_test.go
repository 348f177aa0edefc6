package operators_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/bellerophon-io/bellerophon/operators"
)

// heldRig returns a rig with two controllers: held, which has a gate of its own, and pods, which
// has none.
func heldRig(t *testing.T, options operators.ReconcileOptions) *rig {
	return newRigOf(t, map[string]operators.Controller{
		"pods": {Reconcile: takes(0)},
		"held": {Reconcile: takes(0), Held: true},
	}, options)
}

func TestAttemptsOfAHeldControllerWaitUntilItIsOpened(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := heldRig(t, one)
		b.in.send(request("held/a", "1"), request("pods/b"), request("held/c"))
		b.wantFlow("before it is opened", 2, 0)
		pass(time.Minute)
		b.in.send(request("held/a", "2"))
		b.controllers.Open("nobody")
		b.controllers.Open("pods")
		pass(time.Minute)
		b.wantAttempts("0s b")
		b.controllers.Open("held")
		b.controllers.Open("held")
		synctest.Wait()
		b.in.send(request("held/d"))
		b.wantAttempts("0s b | 2m0s a c d")
		b.stop()
		first := b.results[1]
		if len(first.Causes) != 2 || first.Queued != 2*time.Minute {
			t.Errorf("the first result of it is %+v", first)
		}
	})
}

func TestAnAttemptStartsWhenBothGatesAreOpen(t *testing.T) {
	for name, openLast := range map[string]bool{"its own first": false, "that of all first": true} {
		bubble(t, name, func(t *testing.T) {
			all := make(chan struct{})
			b := heldRig(t, operators.ReconcileOptions{Workers: 1, Start: all})
			b.in.send(request("held/a"), request("pods/b"))
			if pass(time.Second); openLast {
				close(all)
			} else {
				b.controllers.Open("held")
			}
			pass(time.Second)
			b.in.send(request("held/c"))
			if pass(time.Second); openLast {
				b.wantAttempts("1s b")
				b.wantFlow("with one gate open", 2, 0)
				b.controllers.Open("held")
				synctest.Wait()
				b.wantAttempts("1s b | 3s a c")
			} else {
				b.wantAttempts("")
				b.wantFlow("with one gate open", 3, 0)
				close(all)
				synctest.Wait()
				b.wantAttempts("3s a b c")
			}
			b.stop()
		})
	}
}

func TestAnEarlyRequestPassesBothGates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := heldRig(t, operators.ReconcileOptions{Workers: 1, Start: make(chan struct{})})
		b.in.send(request("held/a"), early("held/b"))
		b.wantAttempts("0s b")
		b.wantFlow("behind both", 1, 0)
		pass(time.Minute)
		b.in.send(early("held/a"))
		b.wantAttempts("0s b | 1m0s a")
		b.stop()
	})
}

func TestTheTimeAtAGateIsNoPartOfTheTimeSinceARequestWasReceived(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := make(chan struct{})
		b := heldRig(t, operators.ReconcileOptions{Workers: 1, Start: all})
		b.in.send(request("held/a", "1"), request("pods/b", "2"), request("pods/early", "3"))
		pass(time.Minute)
		b.in.send(early("pods/early", "4"))
		pass(time.Minute)
		close(all)
		pass(time.Minute)
		b.controllers.Open("held")
		pass(time.Minute)
		b.in.send(request("pods/c"))
		b.stop()
		for i, want := range []time.Duration{time.Minute, 2 * time.Minute, 3 * time.Minute, 4 * time.Minute} {
			if got := b.results[i].Received.Sub(b.started); got != want {
				t.Errorf("the request of %s was received after %v, want %v", b.results[i].Name, got, want)
			}
		}
	})
}

func TestWhatWaitsForAHeldControllerGoesWithIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := heldRig(t, one)
		b.in.send(request("held/a"), request("held/b"))
		b.controllers.Set("held", b.noting(operators.Controller{Reconcile: takes(0), Held: true}))
		synctest.Wait()
		b.wantFlow("after another was set", 0, 0)
		b.in.send(request("held/b"))
		b.controllers.Remove("held")
		synctest.Wait()
		b.wantFlow("after it was removed", 0, 0)
		b.controllers.Open("held")
		b.controllers.Set("held", b.noting(operators.Controller{Reconcile: takes(0), Held: true}))
		b.in.send(request("held/c"))
		b.wantFlow("of the last", 1, 0)
		b.wantAttempts("")
		b.controllers.Open("held")
		synctest.Wait()
		b.wantAttempts("0s c")
		b.stop()
	})
}

func TestAtTheEndOfTheInputWhatIsHeldIsStillDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := heldRig(t, one)
		b.in.send(request("held/a"))
		defer time.AfterFunc(time.Minute, func() { b.controllers.Open("held") }).Stop()
		b.drain()
		b.wantAttempts("1m0s a")
	})
}

func TestOpeningAControllerBeforeItIsReconciledLetsItStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newRigOf(t, nil, one)
		b.controllers.Set("late", b.noting(operators.Controller{Reconcile: takes(0), Held: true}))
		b.controllers.Open("late")
		b.in.send(request("late/a"))
		b.wantAttempts("0s a")
		b.stop()
	})
}

// Many BeforeSync requests pass a gate at which others wait, and leave nothing behind.
func TestWhatPassesAGateIsNotKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := make(chan struct{})
		b := heldRig(t, operators.ReconcileOptions{Workers: 1, Start: all})
		b.in.send(request("pods/last"))
		for range 500 { // More often than the gate keeps entries.
			b.in.send(request("pods/a"))
			b.in.send(early("pods/a"))
		}
		b.in.send(request("pods/b"))
		close(all)
		synctest.Wait()
		b.stop()
		if n := len(b.results); n != 502 || b.results[500].Name != "last" || b.results[501].Name != "b" {
			t.Errorf("got %d results, want 500 of a, then last and b", n)
		}
	})
}
