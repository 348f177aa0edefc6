package simple

import (
	"testing"
	"time"

	v1 "github.com/bellerophon-io/bellerophon/bellerophon/api/simple/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// of returns an object with a generation.
func of(uid types.UID, generation int64) *v1.BellerophonSimple {
	return &v1.BellerophonSimple{ObjectMeta: metav1.ObjectMeta{UID: uid, Generation: generation}}
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
		{"the same generation again, because its servers became ready", "pegasus", 1, restFor / 8, 0},
		{"a change during the rest", "pegasus", 2, restFor / 4, restFor * 3 / 4},
		{"another change during the rest", "pegasus", 3, restFor / 2, restFor / 2},
		{"another object", "arion", 1, restFor / 2, 0},
		{"an object of the same name that was created again", "pegasus again", 1, restFor / 2, 0},
		{"the end of the rest", "pegasus", 3, restFor, 0},
		{"a change during the next rest", "pegasus", 4, restFor * 3 / 2, restFor / 2},
		{"long afterwards", "pegasus", 5, 10 * restFor, 0},
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

func TestAnObjectThatChangesWhileItIsWorkedOnRestsTwiceAsLong(t *testing.T) {
	throttle, began := newThrottle(), time.Now()
	throttle.worked(of("pegasus", 1), began)
	for range 3 { // More than one status that could not be written makes the rest no longer.
		throttle.overtaken(of("pegasus", 1))
	}
	if wait := throttle.wait(of("pegasus", 2), began); wait != 2*restFor {
		t.Errorf("the next change waits %v, want %v", wait, 2*restFor)
	}
	throttle.worked(of("pegasus", 2), began.Add(2*restFor))
	throttle.overtaken(of("pegasus", 1)) // The status of an older generation says nothing about this one.
	if wait := throttle.wait(of("pegasus", 3), began.Add(2*restFor)); wait != restFor {
		t.Errorf("the change after that waits %v, want %v", wait, restFor)
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
