package simple

import (
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bellerophon-io/bellerophon/bellerophon/owned"
	"k8s.io/apimachinery/pkg/types"
)

// stalled reports whether an object that has some of 2 servers counts as one that misses them.
func stalled(m *missing, name string, servers int32) bool {
	problem := m.problem(types.NamespacedName{Name: name}, &owned.StatefulSet{Replicas: servers}, 2, time.Now())
	if problem == nil {
		return false
	}
	counts, _ := problem.Counts(time.Now())
	return counts
}

func TestServersAreMissingTenSecondsAfterTheLastOneWasCreated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMissing()
		for servers := range int32(2) {
			if stalled(m, "pegasus", servers) {
				t.Fatalf("%d of 2 servers count as a problem at once", servers)
			}
			<-time.After(leastStall - time.Millisecond)
			if stalled(m, "pegasus", servers) {
				t.Fatalf("%d of 2 servers count as a problem before %v", servers, leastStall)
			}
			m.pace = pace{} // As if no server had been created for long.
		}
		<-time.After(time.Millisecond)
		if !stalled(m, "pegasus", 1) {
			t.Fatalf("1 of 2 servers are no problem after %v", leastStall)
		}
		if stalled(m, "pegasus", 2); len(m.stalls) != 0 {
			t.Fatalf("an object with all servers leaves %v", m.stalls)
		}
	})
}

func TestServersThatWereReportedAsMissingStaySoWhenOthersComeLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMissing()
		stalled(m, "late", 0)
		<-time.After(5 * time.Second)
		stalled(m, "refused", 0)
		if <-time.After(leastStall); !stalled(m, "refused", 0) {
			t.Fatalf("missing servers are no problem after %v", leastStall)
		}
		if stalled(m, "late", 2); m.pace.typical <= leastStall {
			t.Fatalf("others take %v, which changes no patience", m.pace.typical)
		}
		if !stalled(m, "refused", 0) {
			t.Error("missing servers are no problem any more, because others came late")
		}
		if stalled(m, "refused", 1) {
			t.Error("a further server was created, and the problem stays")
		}
	})
}

// The StatefulSet controller lags by up to 24 s, and then a quota refuses the servers of one object.
func TestServersThatAreCreatedAsLateAsOthersAreNotMissing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMissing()
		const objects = 240
		for step := range 2 * objects { // Two objects are created in the time in which one gets its servers.
			for waiting := step / 2; waiting < min(step, objects); waiting++ {
				if stalled(m, strconv.Itoa(waiting), 0) {
					t.Fatalf("object %d is reported in step %d, while all are late", waiting, step)
				}
			}
			if step%2 == 1 {
				stalled(m, strconv.Itoa(step/2), 2)
			}
			<-time.After(100 * time.Millisecond)
		}
		stalled(m, "refused", 0)
		<-time.After(mostStall)
		if !stalled(m, "refused", 0) {
			t.Fatalf("the servers of an object are not reported as missing after %v", mostStall)
		}
		<-time.After(memory)
		stalled(m, "later", 0)
		if <-time.After(leastStall); !stalled(m, "later", 0) {
			t.Fatalf("when nothing is late any more, missing servers are no problem after %v", leastStall)
		}
	})
}
