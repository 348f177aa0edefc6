package simple

import (
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

func TestOneObjectsProgressIsWrittenOnceASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProgress()
		name := types.NamespacedName{Name: "pegasus"}
		for range 10 {
			if wait := p.wait(name, progressEvery, time.Now()); wait != progressEvery {
				t.Fatalf("the first wait is %v, want %v", wait, progressEvery)
			}
			<-time.After(progressEvery / 4)
			if wait := p.wait(name, progressEvery, time.Now()); wait != progressEvery*3/4 {
				t.Fatalf("after a quarter, the wait is %v, want %v", wait, progressEvery*3/4)
			}
			<-time.After(progressEvery * 3 / 4)
			if wait := p.wait(name, progressEvery, time.Now()); wait != 0 {
				t.Fatalf("after the whole interval, the wait is %v, want 0", wait)
			}
			p.forget(name)
		}
	})
}

func TestTheProgressOfAnObjectDoesNotWaitForThatOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const objects = 1000
		p := newProgress()
		for i := range objects {
			p.wait(types.NamespacedName{Name: strconv.Itoa(i)}, progressEvery, time.Now())
		}
		<-time.After(progressEvery)
		for i := range objects {
			if wait := p.wait(types.NamespacedName{Name: strconv.Itoa(i)}, progressEvery, time.Now()); wait != 0 {
				t.Fatalf("after %v, object %d of %d waits %v more", progressEvery, i, objects, wait)
			}
		}
	})
}

func TestTheIntervalThatCountsIsTheLatestOne(t *testing.T) {
	p, name, began := newProgress(), types.NamespacedName{Name: "pegasus"}, time.Now()
	for _, step := range []struct {
		after, interval, want time.Duration
	}{
		{0, time.Second, time.Second},
		{time.Second, 4 * time.Second, 3 * time.Second}, // The API server became busy,
		{2 * time.Second, 2 * time.Second, 0},           // and less so.
		{3 * time.Second, time.Second, 0},
		{3 * time.Second, time.Second, time.Second},
	} {
		if wait := p.wait(name, step.interval, began.Add(step.after)); wait != step.want {
			t.Errorf("after %v, with an interval of %v, it waits %v, want %v", step.after, step.interval, wait, step.want)
		}
	}
}

func TestTheFirstStatusOfANewObjectIsHeldBackWhileTheStatefulSetControllerIsBehind(t *testing.T) {
	for _, step := range []struct {
		name string
		took time.Duration
		want time.Duration
	}{
		{"an idle API server", 50 * time.Millisecond, time.Second},
		{"a busy one", 5 * time.Second, 10 * time.Second},
		{"a burst of thousands", 40 * time.Second, 80 * time.Second},
		{"a StatefulSet controller that was down", time.Hour, 2 * time.Minute},
	} {
		throttle, began := newThrottle(), time.Now()
		fresh, later := of("arion", 1), began.Add(step.took)
		if held := throttle.held(fresh, began); held != time.Second {
			t.Errorf("%s: before any work, the status is held back for %v, want a second", step.name, held)
		}
		throttle.worked(of("pegasus", 1), began)
		throttle.wrote(of("pegasus", 1), servers(1, 0))
		throttle.saw(of("pegasus", 1), servers(1, 1), later)
		if held := throttle.held(fresh, later); held != step.want {
			t.Errorf("%s: the status of a new object is held back for %v, want %v", step.name, held, step.want)
		}
		known := of("buraq", 2)
		known.Status.ObservedGeneration = 1
		if held := throttle.held(known, later); held != time.Second {
			t.Errorf("%s: the status of another object is held back for %v, want a second", step.name, held)
		}
		if held := throttle.held(fresh, later.Add(2*memory)); held != time.Second {
			t.Errorf("%s: long afterwards the status is held back for %v, want a second", step.name, held)
		}
	}
}
