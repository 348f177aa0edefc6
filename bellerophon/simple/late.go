package simple

import (
	"context"
	"sync"
	"time"

	v1 "github.com/bellerophon-io/bellerophon/bellerophon/api/simple/v1"
	"github.com/bellerophon-io/bellerophon/cache"
	"github.com/bellerophon-io/bellerophon/controller"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
)

// lateAfter is how long servers may take before the operator looks at their pods. Most servers need
// less, and people wait longer before they ask.
const lateAfter = 3 * time.Second

// blindWait is the delay of a requeue of a degraded object while pods are not in the cache. It is a
// routine check, so it does not keep the operator from being settled.
const blindWait = 10 * time.Second

// late tracks which objects have servers that take long. Pods are watched only while there are such
// objects. For other servers, the StatefulSet reports everything that the status needs, and pods
// change more often than all other kinds together. Its methods may be called from any goroutine.
type late struct {
	claim func() (claim, error) // claims the watch of pods

	mu      sync.Mutex
	known   map[types.NamespacedName]lateness // objects whose servers are not finished
	overdue int                               // the number of overdue objects in known
	claimed claim                             // nil while no object is overdue
}

// claim is a controller.Claim.
type claim interface {
	Current() bool
	Release()
}

type lateness struct {
	since   time.Time
	overdue bool
}

func newLate(claim func() (claim, error)) *late {
	return &late{claim: claim, known: map[types.NamespacedName]lateness{}}
}

// done records that the servers of an object are finished, or gone.
func (l *late) done(name types.NamespacedName) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.set(name, lateness{}, false)
}

// wait records that the servers of an object are not finished. It returns how long until they count
// as late, or 0 if they already do. For late servers, current reports whether pods are in the cache.
// If wrong is true, the object was degraded before, and its servers count as late at once.
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

// set stores or removes the state of an object, and claims pods while any object is overdue. It
// reports whether pods are current. The caller holds the lock.
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
	switch {
	case l.overdue > 0 && l.claimed == nil:
		if made, err := l.claim(); err == nil { // It fails only without the controller.
			l.claimed = made
		}
	case l.overdue == 0 && l.claimed != nil:
		l.claimed.Release()
		l.claimed = nil
	}
	return l.claimed != nil && l.claimed.Current()
}

// seen is the part of the pods that the reconciler can see.
type seen struct {
	pods  []*pod
	after time.Duration // the delay of the next look at pods; 0 for none
	blind bool          // the status reports a problem, and pods are not in the cache to confirm it
}

// podsOf returns the pods of servers that are late.
func (r *reconciler) podsOf(ctx context.Context, hero *v1.BellerophonSimple, servers *servers) seen {
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
		pods, err := controller.List[*pod](ctx, r.client, controller.InIndex(cache.OwnerIndex, string(servers.UID)))
		if err == nil {
			return seen{pods: pods}
		}
	}
	// When pods are listed, the problem of a pod is an event. Without permission, pods are never listed.
	return seen{after: blindWait, blind: wrong && hero.Status.ObservedGeneration == hero.Generation}
}
