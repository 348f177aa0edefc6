package operators_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bellerophon-io/bellerophon/operators"
)

// hanging returns a rig with controllers whose attempts take an hour each, and the counts of each
// controller.
func hanging(t *testing.T, workers int, names ...string) (*rig, map[string]*operators.StageStats) {
	flows := map[string]*operators.StageStats{}
	controllers := map[string]operators.Controller{}
	for _, name := range names {
		flows[name] = &operators.StageStats{}
		controllers[name] = operators.Controller{Reconcile: takes(time.Hour), Stats: flows[name]}
	}
	return newRigOf(t, controllers, operators.ReconcileOptions{Workers: workers, Timeout: 2 * time.Hour}), flows
}

// many returns n requests for objects of a controller.
func many(controller string, n int) (all []operators.Request) {
	for i := range n {
		all = append(all, request(fmt.Sprintf("%s/%s%d", controller, controller, i)))
	}
	return all
}

func TestAControllerThatHangsLeavesAShareForEachOther(t *testing.T) {
	for name, test := range map[string]struct {
		workers, controllers int
		first, second, third int64 // running attempts of three greedy controllers, which come one after another
	}{
		"one alone uses all":             {32, 1, 32, 0, 0},
		"two":                            {32, 2, 30, 2, 0},
		"three":                          {32, 3, 28, 2, 2},
		"of many half is kept":           {32, 20, 16, 2, 2},
		"a share is at least one worker": {8, 3, 6, 1, 1},
		"half of few workers is kept":    {4, 9, 2, 1, 1},
		"with two workers":               {2, 2, 1, 1, 0},
		"with one worker they share":     {1, 3, 1, 0, 0},
	} {
		bubble(t, name, func(t *testing.T) {
			names := []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n", "o", "p", "q", "r", "s", "t"}[:test.controllers]
			b, flows := hanging(t, test.workers, names...)
			want := []int64{test.first, test.second, test.third}
			for i, name := range names[:min(3, len(names))] {
				b.in.send(many(name, 50)...)
				if running := flows[name].Running.Load(); running != want[i] {
					t.Errorf("of %s %d run, want %d", name, running, want[i])
				}
			}
			b.end()
		})
	}
}

func TestWhatAControllerMayUseFollowsTheControllersThatThereAre(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, flows := hanging(t, 16, "greedy", "idle")
		running := func(when string, want int64) {
			t.Helper()
			if got := flows["greedy"].Running.Load(); got != want {
				t.Errorf("%s %d run, want %d", when, got, want)
			}
		}
		b.in.send(many("greedy", 100)...)
		running("beside another", 15)
		b.controllers.Remove("idle")
		synctest.Wait()
		running("alone", 16)
		b.controllers.Set("late", b.noting(operators.Controller{Reconcile: takes(time.Second)}))
		b.in.send(request("late/x"))
		running("beside one that is new", 16) // No attempt is ended.
		pass(time.Hour)
		running("after the first ones", 15)
		pass(time.Minute)
		b.in.send(request("late/y"))
		pass(time.Second)
		running("with one that does not hang", 15)
		if n := len(b.results); n != 18 { // late/y did not have to wait.
			t.Errorf("there are %d results, want 18", n)
		}
		b.end()
	})
}

func TestAttemptsThatHangOfAControllerThatWasReplacedTakeNothingFromTheNextOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, _ := hanging(t, 16, "greedy", "idle")
		b.in.send(many("greedy", 10)...)
		next := &operators.StageStats{}
		b.controllers.Set("greedy", b.noting(operators.Controller{Reconcile: takes(time.Minute), Stats: next}))
		var others []operators.Request
		for i := range 20 {
			others = append(others, request(fmt.Sprintf("greedy/other%d", i)))
		}
		b.in.send(others...)
		if running := next.Running.Load(); running != 5 {
			t.Errorf("of the next one %d run, want the 5 that are free, but for one that is kept", running)
		}
		pass(10 * time.Minute)
		if out := next.Out.Load(); out != 20 {
			t.Errorf("of the next one %d have run", out)
		}
		b.end()
	})
}

func TestAControllerThatReplacesOneThatHangsMayUseTheLastWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, _ := hanging(t, 4, "greedy", "idle")
		b.in.send(many("greedy", 10)...)
		b.wantFlow("with one worker kept", 7, 3)
		b.controllers.Set("greedy", b.noting(operators.Controller{Reconcile: takes(time.Minute)}))
		b.in.send(request("greedy/other"))
		b.wantFlow("of the next one", 0, 4)
		b.end()
	})
}

func TestAControllerThatMayNotStartKeepsItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := func(ctx context.Context, request operators.Request) (time.Duration, error) {
			d := 2 * time.Second
			if request.Controller == "greedy" {
				d = 3 * time.Second
			}
			wait(ctx, d)
			return 0, nil
		}
		b := newRigOf(t, map[string]operators.Controller{"greedy": {Reconcile: slow}, "modest": {Reconcile: slow}}, operators.ReconcileOptions{Workers: 2})
		b.in.send(request("greedy/g0"), request("greedy/g1"), request("greedy/g2"))
		b.in.send(request("modest/m0"), request("modest/m1"), request("modest/m2"))
		b.drain()
		b.wantAttempts("0s g0 m0 | 2s m1 | 3s g1 | 4s m2 | 6s g2")
	})
}
