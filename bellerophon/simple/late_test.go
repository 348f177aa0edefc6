package simple

import (
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

func TestServersAreOverdueWhenTheyTakeLongOrWereKnownToBeWrong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLate()
		slow, quick, wrong := types.NamespacedName{Name: "slow"}, types.NamespacedName{Name: "quick"}, types.NamespacedName{Name: "wrong"}
		check := func(name types.NamespacedName, onTheirWay, known, overdue bool, after time.Duration, anyOverdue bool) {
			t.Helper()
			if is, in := l.note(name, onTheirWay, known); is != overdue || in != after || l.any() != anyOverdue {
				t.Errorf("%s is overdue: %v, in %v; any: %v; want %v, %v, %v", name.Name, is, in, l.any(), overdue, after, anyOverdue)
			}
		}
		check(slow, true, false, false, lateAfter, false)
		check(quick, true, false, false, lateAfter, false)
		<-time.After(time.Second)
		check(quick, false, false, false, 0, false)
		check(slow, true, false, false, lateAfter-time.Second, false)
		check(wrong, true, true, true, 0, true)
		check(wrong, true, false, true, 0, true) // Until it is finished.
		check(wrong, false, true, false, 0, false)
		<-time.After(lateAfter - time.Second)
		check(slow, true, false, true, 0, true)
		check(quick, true, false, false, lateAfter, true)
		check(slow, false, false, false, 0, false)
		if len(l.since) != 1 || len(l.overdue) != 0 {
			t.Errorf("of what is finished it still knows %v and %v", l.since, l.overdue)
		}
	})
}
