package history_test

import (
	"fmt"
	"reflect"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bellerophon-io/bellerophon/controller/history"
	"github.com/bellerophon-io/bellerophon/controller/pipeline"
	"github.com/bellerophon-io/bellerophon/operators"
	"github.com/bellerophon-io/bellerophon/streams"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// arena is a world with a controller that reconciles pegasus, and writes to objects for it.
type arena struct {
	*world
	found []history.Finding
}

// inArena runs a test in virtual time.
func inArena(t *testing.T, test func(a *arena)) {
	t.Helper()
	inArenaOf(t, history.Options{}, test)
}

// inArenaOf does the same with options for the history.
func inArenaOf(t *testing.T, options history.Options, test func(a *arena)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		a := &arena{}
		options.Found = func(finding history.Finding) { a.found = append(a.found, finding) }
		a.world = newWorld(t, options)
		test(a)
	})
}

// changes makes the cache show an object's next version, and returns its event.
func (a *arena) changes(name string, data map[string]string) streams.Cause {
	event := a.event(name)
	a.cached(data, event)
	return event
}

// attempts makes an attempt with causes, which writes an object unless the name is empty. The watch shows the write
// at once. It returns the event of the write.
func (a *arena) attempts(writes string, data map[string]string, causes ...streams.Cause) (echo streams.Cause) {
	result := a.result(time.Now(), time.Now(), causes...)
	if writes != "" {
		echo = a.event(writes)
		result.Writes = []operators.Write{{Verb: "patch", Key: echo.Key, ResourceVersion: echo.ResourceVersion, Answered: time.Now()}}
		a.cached(data, echo)
	}
	a.OnResults([]operators.Result{result})
	return echo
}

func TestAFieldThatTwoClientsChangeToAndFroIsAFight(t *testing.T) {
	inArena(t, func(a *arena) {
		for i := range 8 {
			foreign := a.changes("child", map[string]string{"horse": "arion", "other": "x"})
			a.states["child"].ManagedFields = []metav1.ManagedFieldsEntry{{Manager: fmt.Sprint("kubectl", i/100), Time: new(metav1.Now())}}
			a.attempts("child", map[string]string{"horse": "pegasus", "other": "x"}, foreign)
			pass(time.Second)
		}
		if len(a.found) != 1 {
			t.Fatalf("it found %+v", a.found)
		}
		got := a.found[0]
		if got.Pattern != history.Fight || got.Controller != "horses" || got.Object != pegasus || got.Written.Name != "child" || got.Rounds != 5 || !slices.Equal(got.Fields, []string{"data.horse"}) || !slices.Equal(got.Managers, []string{"kubectl0"}) {
			t.Errorf("it found %+v", got)
		}
		now := a.Findings()
		if len(now) != 1 || now[0].Rounds != 8 || now[0].Last.Sub(now[0].Since) != 7*time.Second {
			t.Errorf("after three more rounds, there is %+v", now)
		}
		pass(2 * time.Minute)
		if now := a.Findings(); len(now) != 0 {
			t.Errorf("when it is calm, there is %+v", now)
		}
		for range 5 {
			foreign := a.changes("child", map[string]string{"horse": "arion"})
			a.attempts("child", map[string]string{"horse": "pegasus"}, foreign)
		}
		if len(a.found) != 2 {
			t.Errorf("when it begins again, it found %+v", a.found)
		}
	})
}

// A fast opponent's change and the answer to it may be one change of the cache, which has nothing to show.
func TestAFightThatTheDebounceHidesIsFound(t *testing.T) {
	inArena(t, func(a *arena) {
		restored := map[string]string{"horse": "pegasus"}
		a.changes("child", restored)
		foreign := a.event("child")
		for range 6 {
			result := a.result(time.Now(), time.Now(), foreign)
			own := a.event("child")
			result.Writes = []operators.Write{{Verb: "apply", Key: own.Key, ResourceVersion: own.ResourceVersion, Answered: time.Now()}}
			a.cached(restored, foreign, own)
			a.OnResults([]operators.Result{result})
			foreign = a.event("child")
			pass(100 * time.Millisecond)
		}
		if len(a.found) != 1 || a.found[0].Pattern != history.Fight || len(a.found[0].Fields) != 0 {
			t.Errorf("it found %+v", a.found)
		}
	})
}

// The same, but the answer and the next change of the opponent are one change of the cache.
func TestAFightWhoseAnswersAreHiddenIsFound(t *testing.T) {
	inArena(t, func(a *arena) {
		theirs := map[string]string{"horse": "arion"}
		a.changes("child", map[string]string{"horse": "pegasus"})
		foreign := a.changes("child", theirs)
		for range 6 {
			result := a.result(time.Now(), time.Now(), foreign)
			own := a.event("child")
			result.Writes = []operators.Write{{Verb: "apply", Key: own.Key, ResourceVersion: own.ResourceVersion, Answered: time.Now()}}
			a.OnResults([]operators.Result{result})
			foreign = a.event("child")
			a.cached(theirs, own, foreign)
			pass(100 * time.Millisecond)
		}
		if len(a.found) != 1 || a.found[0].Pattern != history.Fight {
			t.Errorf("it found %+v", a.found)
		}
	})
}

// A field of a part may be a hash of many fields. One value of it tells an opponent from a user who changes field after field.
func TestAFightOverAnObjectThatIsKeptInPartNeedsTheSameValueEachTime(t *testing.T) {
	partial := history.Options{IsPartial: func(schema.GroupKind) bool { return true }}
	for name, row := range map[string]struct {
		options history.Options
		hash    func(round int) string
		fights  int
	}{
		"one value":                     {partial, func(int) string { return "theirs" }, 1},
		"a value for each round":        {partial, func(round int) string { return fmt.Sprint(round) }, 0},
		"another value once in a while": {partial, func(round int) string { return fmt.Sprint(round / 3) }, 0},
		"values of a whole object":      {history.Options{}, func(round int) string { return fmt.Sprint(round) }, 1},
	} {
		t.Run(name, func(t *testing.T) {
			inArenaOf(t, row.options, func(a *arena) {
				for round := range 20 {
					// The observed state is a part that changes all the time, and that no side restores.
					observed := fmt.Sprint(round)
					foreign := a.changes("child", map[string]string{"hash": row.hash(round), "observed": observed})
					a.attempts("child", map[string]string{"hash": "ours", "observed": observed}, foreign)
					pass(100 * time.Millisecond)
				}
				if len(a.found) != row.fights || row.fights == 1 && !slices.Equal(a.found[0].Fields, []string{"data.hash"}) {
					t.Errorf("it found %+v", a.found)
				}
			})
		})
	}
}

func TestTwoControllersOfOneManagerFightToo(t *testing.T) {
	inArena(t, func(a *arena) {
		cause := a.changes("child", map[string]string{"horse": "none"})
		for i := range 20 {
			name := []string{"horses", "riders"}[i%2]
			result := a.result(time.Now(), time.Now(), cause)
			result.Controller = name
			cause = a.event("child")
			result.Writes = []operators.Write{{Verb: "patch", Key: cause.Key, ResourceVersion: cause.ResourceVersion, Answered: time.Now()}}
			a.cached(map[string]string{"horse": name}, cause)
			a.OnResults([]operators.Result{result})
			pass(10 * time.Millisecond)
		}
		if len(a.found) != 2 || a.found[0].Controller == a.found[1].Controller {
			t.Errorf("it found %+v", a.found)
		}
	})
}

func TestAnAttemptThatFollowsFromItsOwnWritesForeverIsAHotLoop(t *testing.T) {
	inArena(t, func(a *arena) {
		cause := a.changes("pegasus", nil)
		for i := range 60 {
			cause = a.attempts("pegasus", map[string]string{"count": fmt.Sprint(i)}, cause)
			pass(20 * time.Millisecond)
		}
		if len(a.found) != 1 || a.found[0].Pattern != history.HotLoop || a.found[0].Rounds != 50 || a.found[0].Written.Name != "pegasus" {
			t.Errorf("it found %+v", a.found)
		}
	})
}

// What others do often is not a pattern.
func TestUsualWorkIsNoPattern(t *testing.T) {
	for name, work := range map[string]func(a *arena){
		"a user changes the spec all the time, and the status follows": func(a *arena) {
			status := ""
			for i := range 200 {
				foreign := a.changes("pegasus", map[string]string{"spec": fmt.Sprint(i), "status": status})
				status = fmt.Sprint("observed ", i)
				echo := a.attempts("pegasus", map[string]string{"spec": fmt.Sprint(i), "status": status}, foreign)
				a.attempts("", nil, echo)
				pass(10 * time.Millisecond)
			}
		},
		"an autoscaler changes replicas, and the template follows": func(a *arena) {
			for i := range 100 {
				foreign := a.changes("child", map[string]string{"replicas": fmt.Sprint(i), "image": fmt.Sprint(i - 1)})
				a.attempts("child", map[string]string{"replicas": fmt.Sprint(i), "image": fmt.Sprint(i)}, foreign)
				pass(50 * time.Millisecond)
			}
		},
		"a procedure of forty steps": func(a *arena) {
			cause := a.changes("pegasus", nil)
			for i := range 40 {
				cause = a.attempts("pegasus", map[string]string{"step": fmt.Sprint(i)}, cause)
				pass(10 * time.Millisecond)
			}
			a.attempts("", nil, cause)
		},
		"a slow loop": func(a *arena) {
			cause := a.changes("pegasus", nil)
			for i := range 200 {
				cause = a.attempts("pegasus", map[string]string{"at": fmt.Sprint(i)}, cause)
				pass(time.Second)
			}
		},
		"a child that is restored now and then": func(a *arena) {
			for range 50 {
				foreign := a.changes("child", map[string]string{"horse": "arion"})
				a.attempts("child", map[string]string{"horse": "pegasus"}, foreign)
				pass(3 * time.Second)
			}
		},
		"a start among five thousand objects": func(a *arena) {
			for i := range 5000 {
				name := fmt.Sprint("object-", i)
				listed := a.event(name)
				listed.Type = streams.Listed
				a.cached(nil, listed)
				echo := a.attempts(name, map[string]string{"status": "seen"}, listed)
				a.attempts("", nil, echo)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			inArena(t, func(a *arena) {
				if work(a); len(a.found) != 0 || len(a.Findings()) != 0 {
					t.Errorf("it found %+v", a.found)
				}
			})
		})
	}
}

func TestAPatternSlowsDownAndTheSpecStillCounts(t *testing.T) {
	inArena(t, func(a *arena) {
		request := operators.Request{Controller: "horses", NamespacedName: pegasus}
		own := streams.Key{GroupKind: configMaps, NamespacedName: pegasus}
		fight := func() {
			foreign := a.changes("child", map[string]string{"horse": "arion"})
			a.attempts("child", map[string]string{"horse": "pegasus"}, foreign)
		}
		for range 4 {
			fight()
		}
		if wait := a.Hold(request, own); wait != 0 {
			t.Errorf("before it is found, an attempt waits for %v", wait)
		}
		for _, want := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, 16 * time.Second, 30 * time.Second, 30 * time.Second} {
			fight()
			if wait := a.Hold(request, own); wait != want {
				t.Errorf("an attempt waits for %v, want %v", wait, want)
			}
			a.attempts("", nil) // The attempt that was held back.
			mended := request
			mended.SpecChanged = true
			if wait := a.Hold(mended, own); wait != 0 {
				t.Errorf("with another spec, an attempt waits for %v", wait)
			}
			if wait := a.Hold(mended, streams.Key{GroupKind: configMaps, NamespacedName: a.found[0].Written.NamespacedName}); wait != want {
				t.Errorf("in a fight for the spec, an attempt waits for %v, want %v", wait, want)
			}
			a.attempts("", nil)
			pass(want)
			if wait := a.Hold(request, own); wait != 0 {
				t.Errorf("after that time, an attempt waits for %v", wait)
			}
		}
		other := request
		other.Name = "arion"
		if wait := a.Hold(other, own); wait != 0 {
			t.Errorf("an attempt for another object waits for %v", wait)
		}
	})
}

func TestAPatternEndsAMinuteAfterItsLastRound(t *testing.T) {
	inArena(t, func(a *arena) {
		for range 5 {
			foreign := a.changes("child", map[string]string{"horse": "arion"})
			a.attempts("child", map[string]string{"horse": "pegasus"}, foreign)
		}
		began := time.Now()
		for after, want := range map[time.Duration]int{0: 1, time.Minute: 1, time.Minute + time.Nanosecond: 0} {
			if found := a.FindingsAt(began.Add(after)); len(found) != want {
				t.Errorf("after %v it finds %+v", after, found)
			}
		}
		found, left, is := a.FindingOf("horses", pegasus)
		if !is || found.Pattern != history.Fight || left != time.Minute {
			t.Errorf("it finds %+v, which ends in %v: %v", found, left, is)
		}
		if _, _, is := a.FindingOf("riders", pegasus); is {
			t.Error("another controller is in the fight")
		}
		pass(left)
		if _, _, is := a.FindingOf("horses", pegasus); !is {
			t.Error("it has ended too early")
		}
		pass(time.Nanosecond)
		if _, _, is := a.FindingOf("horses", pegasus); is {
			t.Error("it has not ended")
		}
	})
}

func TestEachOperatorPassesAllResultsOnAndFindsItsOwnPattern(t *testing.T) {
	inArena(t, func(a *arena) {
		var results []operators.Result
		cause := a.changes("pegasus", nil)
		for range 60 { // Each attempt follows from the write of the one before.
			result := a.result(time.Now(), time.Now(), cause)
			cause = a.event("pegasus")
			result.Writes = []operators.Write{{Verb: "patch", Key: cause.Key, ResourceVersion: cause.ResourceVersion, Answered: time.Now()}}
			results = append(results, result)
			pass(20 * time.Millisecond)
		}
		removed := a.result(time.Now(), time.Now())
		removed.NamespacedName.Name, removed.Err = "removed", fmt.Errorf("horses: %w", pipeline.ErrRemoved)
		results = append(results, removed)

		through := func(in streams.Stream[operators.Result]) {
			t.Helper()
			passed, failures := streams.Collect(a.t.Context(), in)
			if !reflect.DeepEqual(passed, results) || len(failures) > 0 {
				t.Errorf("%d of %d results were passed on, with the errors %v", len(passed), len(results), failures)
			}
		}
		through(a.Fights(a.Remember(streams.Of(results...))))
		if len(a.found) != 0 {
			t.Errorf("the operator for fights found %+v", a.found)
		}
		through(a.HotLoops(streams.Of(results...)))
		if len(a.found) != 1 || a.found[0].Pattern != history.HotLoop {
			t.Errorf("the operator for hot loops found %+v", a.found)
		}
		if attempts, _ := a.Of("horses", removed.NamespacedName); len(attempts) != 0 {
			t.Errorf("an attempt that did not begin is remembered: %+v", attempts)
		}
	})
}
