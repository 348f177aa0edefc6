package simple

import (
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// claimed is a claim on a kind that is current at once.
type claimed struct{ wanted *bool }

func (c claimed) Current() bool { return true }
func (c claimed) Release()      { *c.wanted = false }

func TestPodsAreWantedWhileServersTakeLongOrWereWrongBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wanted := false
		l := newLate(func() (claim, error) { wanted = true; return claimed{&wanted}, nil })
		slow, quick, wrong := types.NamespacedName{Name: "slow"}, types.NamespacedName{Name: "quick"}, types.NamespacedName{Name: "wrong"}
		wait := func(name types.NamespacedName, wasWrong bool, after time.Duration, pods bool) {
			t.Helper()
			if in, current := l.wait(name, wasWrong); in != after || current != (after == 0) || wanted != pods {
				t.Errorf("%s is late in %v, want %v; pods are current: %v; pods are demanded: %v, want %v", name.Name, in, after, current, wanted, pods)
			}
		}
		done := func(name types.NamespacedName, pods bool) {
			t.Helper()
			if l.done(name); wanted != pods {
				t.Errorf("after %s is done, pods are demanded: %v, want %v", name.Name, wanted, pods)
			}
		}
		wait(slow, false, lateAfter, false)
		wait(quick, false, lateAfter, false)
		<-time.After(time.Second)
		done(quick, false)
		wait(slow, false, lateAfter-time.Second, false)
		wait(wrong, true, 0, true)
		wait(wrong, false, 0, true) // Until it is finished.
		wait(slow, false, lateAfter-time.Second, true)
		done(wrong, false)
		<-time.After(lateAfter - time.Second)
		wait(slow, false, 0, true)
		wait(quick, false, lateAfter, true)
		done(slow, false)
		done(slow, false)
		if len(l.known) != 1 || l.overdue != 0 {
			t.Errorf("objects that are done are still held: %v, of which overdue: %d", l.known, l.overdue)
		}
	})
}
