package simple

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// claimed is a claim on a kind that is current at once.
type claimed struct{ wanted *bool }

func (c claimed) Current() bool { return true }
func (c claimed) Release()      { *c.wanted = false }

// lateRig has a late and the demand for pods.
type lateRig struct {
	*testing.T
	*late
	wanted bool
}

func newLateRig(t *testing.T) *lateRig {
	r := &lateRig{T: t}
	r.late = newLate(func() (claim, error) { r.wanted = true; return claimed{&r.wanted}, nil })
	return r
}

func (r *lateRig) waits(name string, exist, wrong bool, wantAfter time.Duration, wantLate, wantPods bool) {
	r.Helper()
	late, after, current := r.wait(types.NamespacedName{Name: name}, exist, wrong, time.Now())
	if late != wantLate || after != wantAfter || current != late || r.wanted != wantPods {
		r.Errorf("%s is late: %v, in %v; want %v, in %v; pods are current: %v; pods are demanded: %v, want %v", name, late, after, wantLate, wantAfter, current, r.wanted, wantPods)
	}
}

func (r *lateRig) finishes(name string) {
	r.Helper()
	if r.done(types.NamespacedName{Name: name}, time.Now()); r.wanted {
		r.Errorf("after %s is done, pods are demanded", name)
	}
}

func TestPodsAreWantedWhileServersTakeLongOrWereWrongBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newLateRig(t)
		r.waits("slow", true, false, leastPatience, false, false)
		r.waits("quick", true, false, leastPatience, false, false)
		<-time.After(time.Second)
		r.finishes("quick")
		r.waits("slow", true, false, leastPatience-time.Second, false, false)
		r.waits("wrong", true, true, 0, true, true)
		r.waits("wrong", true, false, 0, true, true) // Until it is finished.
		r.waits("slow", true, false, leastPatience-time.Second, false, true)
		r.finishes("wrong")
		<-time.After(leastPatience - time.Second)
		r.waits("slow", true, false, 0, true, true)
		r.waits("quick", true, false, leastPatience, false, true)
		r.finishes("slow")
		r.finishes("slow")
		if len(r.known) != 1 || r.overdue != 0 {
			t.Errorf("objects that are done are still held: %v, of which overdue: %d", r.known, r.overdue)
		}
	})
}

func TestServersWithoutPodsAreNotLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newLateRig(t)
		r.waits("a", false, false, 0, false, false)
		<-time.After(time.Hour)
		r.waits("a", false, false, 0, false, false)
		r.waits("a", true, false, leastPatience, false, false)
		<-time.After(leastPatience)
		r.waits("a", false, false, 0, true, true) // A pod that existed counts.
		r.finishes("a")
	})
}

// When all servers take long, looking at their pods explains nothing.
func TestServersThatTakeAsLongAsOthersAreNotLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newLateRig(t)
		for i := range 40 { // Servers take 2 s at first, and then up to 20 s.
			name := fmt.Sprint(i)
			r.waits(name, true, false, r.pace.patience(leastPatience, mostPatience, time.Now()), false, false)
			<-time.After(min(2*time.Second+time.Duration(i)*time.Second/2, 20*time.Second))
			r.waits(name, true, false, r.pace.patience(leastPatience, mostPatience, time.Now())-min(2*time.Second+time.Duration(i)*time.Second/2, 20*time.Second), false, false)
			r.finishes(name)
		}
		r.waits("stuck", true, false, mostPatience, false, false)
		<-time.After(mostPatience)
		r.waits("stuck", true, false, 0, true, true)
		r.finishes("stuck")
		<-time.After(memory + time.Second)
		r.waits("later", true, false, leastPatience, false, false)
	})
}
