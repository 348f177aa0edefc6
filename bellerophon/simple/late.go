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

// blindWait is when to look again at servers of which something was wrong, if no pod tells of it:
// a routine, not a reason for the operator not to be settled.
const blindWait = 10 * time.Second

// late knows whose servers take long. Pods are watched while there are some: of servers that get
// ready, the StatefulSet tells all that a status says, and pods change more often than all
// else together. Its methods may be called from any goroutine.
type late struct {
	demand func(wanted bool) (current bool) // pods

	mu      sync.Mutex
	known   map[types.NamespacedName]lateness // of objects whose servers are not finished
	overdue int                               // of them
}

type lateness struct {
	since   time.Time
	overdue bool
}

func newLate(demand func(wanted bool) (current bool)) *late {
	return &late{demand: demand, known: map[types.NamespacedName]lateness{}}
}

// done notes that the servers of an object are finished, or gone.
func (l *late) done(name types.NamespacedName) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.set(name, lateness{}, false)
}

// wait notes that the servers of an object are on their way. It says in what time they take long,
// or 0 if they do, and then whether their pods are there to look at. Those of which something was
// wrong before take long at once.
func (l *late) wait(name types.NamespacedName, wrong bool) (after time.Duration, current bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	held, noted := l.known[name]
	if !noted {
		held.since = time.Now()
	}
	after = lateAfter - time.Since(held.since)
	held.overdue = held.overdue || wrong || after <= 0
	if current = l.set(name, held, true); held.overdue {
		return 0, current
	}
	return after, false
}

// set is called with the lock: what is wanted last must be what is so.
func (l *late) set(name types.NamespacedName, to lateness, known bool) (current bool) {
	if l.known[name].overdue {
		l.overdue--
	}
	if to.overdue {
		l.overdue++
	}
	if known {
		l.known[name] = to
	} else {
		delete(l.known, name)
	}
	return l.demand(l.overdue > 0)
}

// seen is what pods there are to look at.
type seen struct {
	pods  []*pod
	after time.Duration // when there may be some; 0 is not by waiting
	blind bool          // the status says that something is wrong, and it is not known yet whether it is
}

// podsOf is what is seen of the pods of servers, if those take long.
func (r *reconciler) podsOf(hero *v1.BellerophonSimple, servers *servers) seen {
	if servers == nil || isFinished(servers, replicasOf(hero)) {
		r.late.done(nameOf(hero))
		return seen{}
	}
	wrong := meta.IsStatusConditionTrue(hero.Status.Conditions, v1.ConditionDegraded)
	after, current := r.late.wait(nameOf(hero), wrong)
	switch {
	case after > 0:
		return seen{after: after}
	case current:
		return seen{pods: controller.ByIndex[*pod](r.client, cache.OwnerIndex, string(servers.UID))}
	}
	// What is wrong with a pod is an event when pods are listed. They may never be, without permission.
	return seen{after: blindWait, blind: wrong && hero.Status.ObservedGeneration == hero.Generation}
}
