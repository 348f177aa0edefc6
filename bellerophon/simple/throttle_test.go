package simple

import (
	"testing"
	"time"

	v1 "github.com/bellerophon-io/bellerophon/bellerophon/api/simple/v1"
	"github.com/bellerophon-io/bellerophon/bellerophon/owned"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// of returns an object with a generation.
func of(uid types.UID, generation int64) *v1.BellerophonSimple {
	return &v1.BellerophonSimple{ObjectMeta: metav1.ObjectMeta{UID: uid, Generation: generation}}
}

// servers returns a StatefulSet with a generation, and the one that its controller has seen.
func servers(generation, observed int64) *owned.StatefulSet {
	return &owned.StatefulSet{Child: owned.Child{ObjectMeta: metav1.ObjectMeta{Generation: generation}}, Observed: observed}
}

func TestTheFirstChangeIsWorkedOnAtOnceAndTheLatestOneAfterARest(t *testing.T) {
	throttle, began := newThrottle(), time.Now()
	for _, step := range []struct {
		name       string
		uid        types.UID
		generation int64
		after      time.Duration // since began
		want       time.Duration
	}{
		{"a new object", "pegasus", 1, 0, 0},
		{"the same generation again, because its servers became ready", "pegasus", 1, leastRest / 8, 0},
		{"a change during the rest", "pegasus", 2, leastRest / 4, leastRest / 2},
		{"the same change again", "pegasus", 2, leastRest / 2, leastRest / 4},
		{"another change during the rest", "pegasus", 3, leastRest * 3 / 4, leastRest / 4},
		{"another object", "arion", 1, leastRest / 2, 0},
		{"an object of the same name that was created again", "pegasus again", 1, leastRest / 2, 0},
		{"the end of the rest", "pegasus", 3, leastRest, 0},
		{"a change during the next rest", "pegasus", 4, leastRest * 5 / 4, leastRest / 2},
		{"no further change", "pegasus", 4, leastRest * 7 / 4, 0},
		{"long afterwards", "pegasus", 5, 10 * leastRest, 0},
	} {
		hero, now := of(step.uid, step.generation), began.Add(step.after)
		wait := throttle.wait(hero, now)
		if wait != step.want {
			t.Errorf("%s: it waits %v, want %v", step.name, wait, step.want)
		}
		if wait == 0 {
			throttle.worked(hero, now)
		}
	}
}

func TestARestIsFourTimesAsLongAsWorkTakesNow(t *testing.T) {
	for _, step := range []struct {
		name              string
		took              time.Duration
		wantRest, wantEnd time.Duration // of a rest with changes all the time, and without a further one
	}{
		{"an idle API server", 50 * time.Millisecond, leastRest, leastRest / 2},
		{"a busy one", time.Second, 4 * time.Second, 2 * time.Second},
		{"a StatefulSet controller that was down", time.Hour, mostRest, mostRest / 2},
	} {
		throttle, began := newThrottle(), time.Now()
		first := of("pegasus", 1)
		throttle.worked(first, began)
		throttle.wrote(first, servers(2, 1))
		throttle.saw(first, servers(2, 1), began) // It has not followed yet.
		// The object changes before the controller follows, as in a storm.
		later := began.Add(step.took)
		throttle.saw(of("pegasus", 2), servers(2, 2), later)
		throttle.saw(of("pegasus", 2), servers(2, 2), later.Add(time.Hour)) // That is no further work.
		throttle.worked(of("pegasus", 2), later)
		if wait := throttle.wait(of("pegasus", 3), later); wait != step.wantEnd {
			t.Errorf("%s: the next change waits %v, want %v", step.name, wait, step.wantEnd)
		}
		changing, generation := later, int64(3)
		for ; throttle.wait(of("pegasus", generation), changing) > 0; generation++ {
			changing = changing.Add(10 * time.Millisecond)
		}
		if lasted := changing.Sub(later); lasted != step.wantRest {
			t.Errorf("%s: an object that keeps changing waits %v, want %v", step.name, lasted, step.wantRest)
		}
	}
}

func TestARestDoesNotEndBeforeTheStatefulSetControllerHasFollowed(t *testing.T) {
	throttle, began := newThrottle(), time.Now()
	throttle.worked(of("pegasus", 1), began)
	throttle.wrote(of("pegasus", 1), servers(2, 1))
	if wait := throttle.wait(of("pegasus", 2), began); wait != mostRest/2 {
		t.Errorf("before the controller has followed, the next change waits %v, want %v", wait, mostRest/2)
	}
	soon := began.Add(50 * time.Millisecond)
	throttle.saw(of("pegasus", 2), servers(2, 2), soon)
	if wait, want := throttle.wait(of("pegasus", 2), soon), leastRest/2-50*time.Millisecond; wait != want {
		t.Errorf("afterwards it waits %v, want %v", wait, want)
	}
}

func TestWorkThatChangesNoStatefulSetSaysNothingOfThePace(t *testing.T) {
	throttle, began := newThrottle(), time.Now()
	throttle.worked(of("pegasus", 1), began)
	throttle.wrote(of("pegasus", 1), servers(1, 1))
	throttle.saw(of("pegasus", 1), servers(1, 1), began.Add(time.Hour))
	if !throttle.pace.ended.IsZero() {
		t.Errorf("the pace is %v", throttle.pace.typical)
	}
}

func TestTheThrottleForgetsTheOldestObjectsWhenItHasMany(t *testing.T) {
	throttle, began := newThrottle(), time.Now()
	throttle.worked(of("first", 1), began)
	for i := range restsRemembered {
		throttle.worked(of(types.UID(rune('a'+i)), 1), began)
	}
	if wait := throttle.wait(of("first", 2), began); wait != 0 {
		t.Errorf("an object that was forgotten waits %v", wait)
	}
	if held := throttle.rests.Len(); held > restsRemembered {
		t.Errorf("%d rests are held, want at most %d", held, restsRemembered)
	}
}
