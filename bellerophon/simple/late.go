package simple

import (
	"sync"
	"time"

	v1 "github.com/bellerophon-io/bellerophon/bellerophon/api/simple/v1"
	"github.com/bellerophon-io/bellerophon/cache"
	"github.com/bellerophon-io/bellerophon/controller"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
)

// lateAfter is how long servers may take until their pods are looked at: longer than most take,
// and shorter than people wait before they ask.
const lateAfter = 3 * time.Second

// late knows whose servers take long. Pods are watched while there are some: of servers that get
// ready, the StatefulSet tells all that a status says, and pods change more often than all
// else together. Its methods may be called from any goroutine.
type late struct {
	mu      sync.Mutex
	since   map[types.NamespacedName]time.Time // since when servers are not finished
	overdue map[types.NamespacedName]bool      // those that take long
}

func newLate() *late {
	return &late{since: map[types.NamespacedName]time.Time{}, overdue: map[types.NamespacedName]bool{}}
}

// note notes whether the servers of an object are on their way. It says whether they take long,
// or else in what time they will. Those of which it was known before take long at once.
func (l *late) note(name types.NamespacedName, onTheirWay, known bool) (overdue bool, after time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !onTheirWay {
		delete(l.since, name)
		delete(l.overdue, name)
		return false, 0
	}
	now := time.Now()
	since, noted := l.since[name]
	if !noted {
		since = now
		l.since[name] = since
	}
	if left := lateAfter - now.Sub(since); left > 0 && !known && !l.overdue[name] {
		return false, left
	}
	l.overdue[name] = true
	return true, 0
}

// any says whether anybody's take long.
func (l *late) any() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.overdue) > 0
}

// seen is what pods there are to look at.
type seen struct {
	pods  []*pod
	after time.Duration // when there may be some; 0 is not by waiting
	blind bool          // it is known that something is wrong, and not yet what
}

// podsOf is what is seen of the pods of servers, if those take long.
func (r *reconciler) podsOf(hero *v1.BellerophonSimple, servers *servers) (made seen) {
	onTheirWay := servers != nil && !isFinished(servers, replicasOf(hero))
	wrong := meta.IsStatusConditionTrue(hero.Status.Conditions, v1.ConditionDegraded)
	overdue, after := r.late.note(nameOf(hero), onTheirWay, wrong)
	current := controller.Demand[*pod](r.client, r.late.any())
	switch {
	case !overdue:
		made.after = after
	case current:
		made.pods = controller.ByIndex[*pod](r.client, cache.OwnerIndex, string(servers.UID))
	default:
		made.after, made.blind = lateAfter, wrong // What is wrong with one is an event, when pods are listed.
	}
	return made
}
