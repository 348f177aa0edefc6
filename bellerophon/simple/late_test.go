package simple

import (
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

func TestPodsAreWantedWhileServersTakeLongOrWereWrongBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wanted := false
		l := newLate(func(is bool) bool { wanted = is; return is })
		slow, quick, wrong := types.NamespacedName{Name: "slow"}, types.NamespacedName{Name: "quick"}, types.NamespacedName{Name: "wrong"}
		wait := func(name types.NamespacedName, wasWrong bool, after time.Duration, pods bool) {
			t.Helper()
			if in, current := l.wait(name, wasWrong); in != after || current != (after == 0) || wanted != pods {
				t.Errorf("%s takes long in %v, with its pods there: %v; pods are wanted: %v; want %v and %v", name.Name, in, current, wanted, after, pods)
			}
		}
		done := func(name types.NamespacedName, pods bool) {
			t.Helper()
			if l.done(name); wanted != pods {
				t.Errorf("when %s is done, pods are wanted: %v", name.Name, wanted)
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
			t.Errorf("of what is done it still knows %v and %d", l.known, l.overdue)
		}
	})
}
