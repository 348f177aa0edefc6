package operators_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bellerophon-io/bellerophon/operators"
)

// letters are the names of n controllers.
func letters(n int) []string { return strings.Split("abcdefghijklmnopqrstuvwxyz", "")[:n:n] }

// wantRunning checks how many attempts of a controller run.
func wantRunning(t *testing.T, flows map[string]*operators.StageStats, name, when string, want int64) {
	t.Helper()
	if got := flows[name].Running.Load(); got != want {
		t.Errorf("%s: of %s %d run, want %d", when, name, got, want)
	}
}

func TestAttemptsThatHangTakeWorkersFromOthersForASecondAtMost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, flows := hanging(t, 32, "a", "b")
		b.in.send(many("a", 50)...)
		pass(time.Second / 2)
		b.in.send(many("b", 8)...)
		wantRunning(t, flows, "b", "at once", 2)
		pass(time.Second/2 - 1)
		wantRunning(t, flows, "b", "before the second is over", 2)
		pass(1)
		wantRunning(t, flows, "b", "when the attempts of a are stuck", 8)
		pass(time.Minute)
		wantRunning(t, flows, "a", "at last", 30)
		b.end()
	})
}

func TestAfterOthersHungForLongAllWorkersAreThereAtOnce(t *testing.T) {
	for name, test := range map[string]struct {
		workers, hung int
		want          int64 // attempts of another controller that run at once, as if the others were idle
	}{
		"one hangs":                      {32, 1, 30},
		"three hang":                     {32, 3, 26},
		"four hang":                      {32, 4, 24},
		"more hang than count as stuck":  {32, 8, 2}, // its share
		"of two workers, one is kept":    {2, 1, 1},
		"a single worker gets no others": {1, 1, 0},
	} {
		bubble(t, name, func(t *testing.T) {
			b, flows := hanging(t, test.workers, append(letters(test.hung), "other")...)
			for _, name := range letters(test.hung) {
				b.in.send(many(name, 50)...)
				pass(time.Second)
			}
			b.in.send(many("other", 50)...)
			wantRunning(t, flows, "other", "at once", test.want)
			b.end()
		})
	}
}

func TestAtMostFourTimesAsManyAttemptsRunAsThereAreWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, _ := hanging(t, 32, letters(26)...)
		for _, name := range letters(26) {
			b.in.send(many(name, 50)...)
			pass(time.Minute)
		}
		if all := b.flow.Running.Load(); all != 4*32 {
			t.Errorf("%d attempts run, want %d", all, 4*32)
		}
		if alive := workersAlive(); alive != 4*32 {
			t.Errorf("there are %d workers, want %d", alive, 4*32)
		}
		pass(24 * time.Hour)
		if done := len(b.results); done != 26*50 {
			t.Errorf("%d are done, want all of %d", done, 26*50)
		}
		b.end()
	})
}

func TestAControllerThatIsAddedWhileAnotherOneHangsWaitsForASecondAtMost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, flows := hanging(t, 16, "greedy")
		b.in.send(many("greedy", 100)...)
		wantRunning(t, flows, "greedy", "alone", 16)
		flows["late"] = &operators.StageStats{}
		b.controllers.Set("late", operators.Controller{Reconcile: takes(time.Hour), Stats: flows["late"]})
		b.in.send(many("late", 8)...)
		pass(time.Second)
		wantRunning(t, flows, "late", "after a second", 8)
		b.end()
	})
}

func TestASuccessorOfAControllerThatHangsHasAllWorkersAfterASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, flows := hanging(t, 16, "greedy")
		b.in.send(many("greedy", 16)...)
		next := &operators.StageStats{}
		b.controllers.Set("greedy", operators.Controller{Reconcile: takes(time.Hour), Stats: next})
		var others []operators.Request
		for i := range 50 {
			others = append(others, request(fmt.Sprintf("greedy/other%d", i)))
		}
		b.in.send(others...)
		pass(time.Second)
		if running := next.Running.Load(); running != 16 {
			t.Errorf("of the successor %d run, want 16", running)
		}
		wantRunning(t, flows, "greedy", "of the former one", 16)
		pass(24 * time.Hour)
		if running := b.flow.Running.Load(); running != 0 {
			t.Errorf("at the end %d run", running)
		}
		b.end()
	})
}

// Each controller has as many attempts in flight as if it were alone, so slowness takes nothing from
// others, and gains nothing.
func TestASlowControllerNeitherGainsNorLosesWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		counts := func(took time.Duration) (*operators.StageStats, operators.Controller) {
			stats := &operators.StageStats{}
			return stats, operators.Controller{Reconcile: takes(took), Stats: stats}
		}
		slowly, slow := counts(10 * time.Second)
		quickly, quick := counts(100 * time.Millisecond)
		b := newRigOf(t, map[string]operators.Controller{"slow": slow, "quick": quick}, operators.ReconcileOptions{Workers: 32})
		b.in.send(many("slow", 1_000)...)
		b.in.send(many("quick", 40_000)...)
		pass(5 * time.Second)
		for range 50 { // 100 s: ten rounds of the slow one
			if running := slowly.Running.Load(); running < 20 || running > 30 {
				t.Errorf("of the slow one %d run, want at most 30, as if it were alone, and nearly as many", running)
			}
			pass(1990 * time.Millisecond)
		}
		if done := quickly.Out.Load(); done < 100*10*20 { // 20 of the 30 workers all the time, at least
			t.Errorf("of the quick one %d are done in 100 s", done)
		}
		b.end()
	})
}

func TestTheLimitOfAControllerHoldsWhileItsAttemptsAreStuck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limited, other := &operators.StageStats{}, &operators.StageStats{}
		b := newRigOf(t, map[string]operators.Controller{
			"limited": {Reconcile: takes(time.Hour), Stats: limited, MaxConcurrent: 3},
			"other":   {Reconcile: takes(time.Hour), Stats: other},
		}, operators.ReconcileOptions{Workers: 8, Timeout: 2 * time.Hour})
		b.in.send(many("other", 50)...)
		b.in.send(many("limited", 50)...)
		for range 100 {
			pass(time.Minute)
			if running := limited.Running.Load(); running != 3 {
				t.Fatalf("of the limited one %d run, want 3", running)
			}
			if running := other.Running.Load(); running != 7 {
				t.Fatalf("of the other one %d run, want 7", running)
			}
		}
		b.end()
	})
}

// A retry that hangs again must not hold a worker for another second.
func TestAnAttemptThatFollowsAStuckOneCountsAsStuckAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stats := &operators.StageStats{}
		b := newRigOf(t, map[string]operators.Controller{
			"hangs": {Reconcile: func(ctx context.Context, _ operators.Request) (time.Duration, error) {
				<-ctx.Done()
				return 0, ctx.Err()
			}, Timeout: 5 * time.Second},
			"busy": {Reconcile: takes(time.Millisecond), Stats: stats},
		}, operators.ReconcileOptions{Workers: 32, Backoff: operators.Backoff{First: time.Second, Max: time.Second}})
		b.in.send(many("hangs", 30)...)
		pass(10 * time.Second) // The first attempts have timed out, and the second ones hang.
		for range 1000 {
			b.in.send(many("busy", 8)...)
			if running := stats.Running.Load(); running != 8 {
				t.Fatalf("after %v %d run, want 8", time.Since(b.started), running)
			}
			pass(20 * time.Millisecond)
		}
		b.end()
	})
}

// workersAlive returns how many goroutines of workers there are.
func workersAlive() int {
	all := make([]byte, 1<<20)
	return strings.Count(string(all[:runtime.Stack(all, true)]), "operators.(*pool).worker(")
}

func TestTheWorkersInThePlaceOfStuckOnesEndWithThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, flows := hanging(t, 8, "a", "b")
		want := func(when string, want int) {
			t.Helper()
			if got := workersAlive(); got != want {
				t.Errorf("%s there are %d workers, want %d", when, got, want)
			}
		}
		synctest.Wait()
		want("at first", 8)
		b.in.send(many("a", 50)...)
		pass(time.Minute)
		want("with stuck ones and no need for others", 8)
		b.in.send(many("b", 50)...)
		want("with a need", 14) // Seven of each: one of the eight is kept for the other.
		wantRunning(t, flows, "b", "at once", 7)
		b.controllers.Remove("a")
		b.controllers.Remove("b")
		pass(2 * time.Hour)
		want("after the end of the stuck ones", 8)
		b.end()
	})
}
