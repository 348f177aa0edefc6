package operators_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bellerophon-io/bellerophon/operators"
)

// counted formats counts as keys/failing/terminal.
func counted(count operators.UnfinishedCount) string {
	return fmt.Sprintf("%d/%d/%d", count.Keys, count.Failing, count.Terminal)
}

// failures formats keys as controller/name#failures:error.
func failures(keys []operators.UnfinishedKey) string {
	var all []string
	for _, key := range keys {
		all = append(all, fmt.Sprintf("%s/%s#%d:%v", key.Controller, key.Name, key.Failures, key.Err))
	}
	return strings.Join(all, " ")
}

// willing reconciles an object as the test has set: it fails with an error, or asks for a requeue.
type willing struct {
	mu   sync.Mutex
	does map[string]any
}

func (w *willing) set(name string, what any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.does[name] = what
}

func (w *willing) reconcile(_ context.Context, request operators.Request) (time.Duration, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch what := w.does[request.Name].(type) {
	case error:
		return 0, what
	case time.Duration:
		return what, nil
	}
	return 0, nil
}

func TestAKeyThatFailedThreeTimesNoLongerCountsAsWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		flow := &operators.StageStats{}
		b := newRigOf(t, map[string]operators.Controller{"pods": {Reconcile: failing(4, errFailed), Stats: flow}}, backoff(time.Second, time.Hour))
		b.in.send(request("a"))
		pass(1500 * time.Millisecond)
		b.wantFlow("after two failures", 1, 0)
		pass(2 * time.Second)
		b.wantFlow("after three failures", 0, 0)
		b.in.send(request("a")) // It does not end the backoff.
		b.wantFlow("after a request", 0, 0)
		if flow.Busy() {
			t.Errorf("of the controller %d wait", flow.Waiting.Load())
		}
		pass(time.Hour)
		b.wantAttempts("0s a | 1s a | 3s a | 7s a | 15s a")
		b.wantFlow("after the success", 0, 0)
		b.stop()
	})
}

func TestUnfinishedHoldsTheKeysWhoseLastAttemptDidNotSucceed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var unfinished operators.Unfinished
		will := &willing{does: map[string]any{"failing": errFailed, "ended": operators.Terminal(errors.New("never")), "again": time.Hour}}
		options := backoff(time.Second, time.Hour)
		options.Unfinished = &unfinished
		b := newRigOf(t, map[string]operators.Controller{"pods": {Reconcile: will.reconcile}, "sets": {Reconcile: will.reconcile}}, options)
		want := func(when, counts, listed string) {
			t.Helper()
			got := counted(unfinished.Count()) + " " + counted(unfinished.CountOf("pods")) + " " + counted(unfinished.CountOf("sets"))
			if got != counts {
				t.Errorf("%s the counts are %s, want %s", when, got, counts)
			}
			if got := failures(unfinished.Failing(10)); got != listed {
				t.Errorf("%s it lists\n%s, want\n%s", when, got, listed)
			}
			for _, name := range []string{"pods", "sets"} {
				if got, failed := unfinished.CountOf(name).Failed, len(unfinished.FailedOf(name, 10)); got != failed {
					t.Errorf("%s it counts %d failed keys of %s, and lists %d", when, got, name, failed)
				}
			}
		}
		want("before all", "0/0/0 0/0/0 0/0/0", "")
		b.in.send(request("sets/failing"), request("pods/failing"), request("pods/ended"), request("pods/again"), request("pods/good"))
		want("after the first failure", "4/0/1 3/0/1 1/0/0", "pods/ended#1:never")
		pass(3500 * time.Millisecond)
		want("after the third", "4/2/1 3/1/1 1/1/0", "pods/ended#1:never pods/failing#3:failed sets/failing#3:failed")
		will.set("failing", nil)
		pass(time.Minute)
		want("after they succeeded", "2/0/1 2/0/1 0/0/0", "pods/ended#1:never")
		will.set("again", nil)
		pass(time.Hour)
		want("when nothing more is asked for", "1/0/1 1/0/1 0/0/0", "pods/ended#1:never")
		will.set("ended", errFailed)
		b.in.send(request("pods/ended"))
		want("when it failed otherwise", "1/0/0 1/0/0 0/0/0", "")
		b.wantFlow("when it failed otherwise", 1, 0)
		pass(10 * time.Second)
		want("when it is failing", "1/1/0 1/1/0 0/0/0", "pods/ended#4:failed")
		will.set("ended", operators.Terminal(errFailed))
		pass(10 * time.Second)
		want("when it has ended again", "1/0/1 1/0/1 0/0/0", "pods/ended#5:failed")
		will.set("ended", time.Hour)
		b.in.send(request("pods/ended"))
		want("when it asked for more", "1/0/0 1/0/0 0/0/0", "")
		if last := b.results[len(b.results)-1]; last.Attempt != 1 {
			t.Errorf("the attempt after a terminal error is number %d", last.Attempt)
		}
		b.stop()
		want("at the end", "0/0/0 0/0/0 0/0/0", "")
	})
}

func TestAKeyStaysUnfinishedWhileItsNextAttemptRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var unfinished operators.Unfinished
		attempts := 0
		b := newRig(t, func(ctx context.Context, _ operators.Request) (time.Duration, error) {
			if attempts++; attempts <= operators.FailingAfter {
				return 0, errFailed
			}
			wait(ctx, time.Minute)
			return 0, nil
		}, operators.ReconcileOptions{Unfinished: &unfinished, Backoff: operators.Backoff{First: time.Second}})
		b.in.send(request("a"))
		pass(30 * time.Second)
		b.wantFlow("during the attempt", 0, 1)
		b.in.send(request("a"))
		if got := counted(unfinished.Count()); got != "1/1/0" {
			t.Errorf("during the attempt the counts are %s", got)
		}
		pass(40 * time.Second)
		b.wantFlow("during the next", 0, 1)
		if got := counted(unfinished.Count()); got != "0/0/0" {
			t.Errorf("after the success the counts are %s", got)
		}
		b.stop()
	})
}

func TestKeysLeaveUnfinishedWithTheirController(t *testing.T) {
	for name, slowly := range map[string]bool{"while they wait": false, "while one is in flight": true} {
		bubble(t, name, func(t *testing.T) {
			var unfinished operators.Unfinished
			will := &willing{does: map[string]any{"a": errFailed, "b": operators.Terminal(errFailed), "c": time.Hour}}
			b := newRig(t, func(ctx context.Context, request operators.Request) (time.Duration, error) {
				if slowly && len(request.Causes) > 0 {
					wait(ctx, time.Minute)
				}
				return will.reconcile(ctx, request)
			}, operators.ReconcileOptions{Unfinished: &unfinished, Backoff: operators.Backoff{First: time.Hour, Max: time.Hour}})
			b.in.send(request("a"), request("b"), request("c"))
			b.in.send(request("b", "1"), request("c", "2"))
			if got := counted(unfinished.Count()); got != "3/0/1" {
				t.Errorf("before the counts are %s", got)
			}
			b.controllers.Remove("pods")
			synctest.Wait()
			if got := counted(unfinished.Count()); got != "0/0/0" {
				t.Errorf("after the counts are %s", got)
			}
			pass(2 * time.Minute)
			b.controllers.Set("pods", b.noting(operators.Controller{Reconcile: will.reconcile}))
			b.in.send(request("b"))
			if got := counted(unfinished.CountOf("pods")); got != "1/0/1" {
				t.Errorf("of the next one the counts are %s", got)
			}
			b.stop()
		})
	}
}

func TestUnfinishedListsTheFirstInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var unfinished operators.Unfinished
		ends := func(context.Context, operators.Request) (time.Duration, error) {
			return 0, operators.Terminal(errFailed)
		}
		b := newRigOf(t, map[string]operators.Controller{"pods": {Reconcile: ends}, "first": {Reconcile: ends}},
			operators.ReconcileOptions{Unfinished: &unfinished})
		for _, name := range []string{"e", "b", "first/d", "nobody/x", "a", "c"} {
			b.in.send(request(name))
		}
		for most, want := range map[int]string{-1: "", 0: "", 1: "d", 3: "d a b", 9: "d a b c e"} {
			var names []string
			for _, key := range unfinished.Failing(most) {
				names = append(names, key.Name)
			}
			if got := strings.Join(names, " "); got != want {
				t.Errorf("the first %d are %s, want %s", most, got, want)
			}
		}
		b.stop()
	})
}

// Run this test with -race.
func TestUnfinishedMayBeReadAtAnyTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var unfinished operators.Unfinished
		controls := &busy{running: map[string]bool{}}
		b := newRigOf(t, nil, operators.ReconcileOptions{Workers: 3, Backoff: modelBackoff, Unfinished: &unfinished})
		for i := range 1000 {
			switch i % 10 {
			case 0:
				b.controllers.Set("x", operators.Controller{Reconcile: controls.reconcile})
			case 5:
				b.controllers.Remove("x")
			}
			b.in <- []operators.Request{request(fmt.Sprintf("x/%d", i%7))}
			<-time.After(time.Millisecond)
			count := unfinished.Count()
			if listed := len(unfinished.Failing(100)); count.Keys > 7 || count.Failing > count.Keys || listed > 7 {
				t.Fatalf("the counts are %s, and %d are listed", counted(count), listed)
			}
		}
		b.stop()
		if got := counted(unfinished.Count()); got != "0/0/0" {
			t.Errorf("at the end the counts are %s", got)
		}
	})
}
