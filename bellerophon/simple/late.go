package simple

import (
	"context"
	"sync"
	"time"

	v1 "github.com/bellerophon-io/bellerophon/bellerophon/api/simple/v1"
	"github.com/bellerophon-io/bellerophon/bellerophon/owned"
	"github.com/bellerophon-io/bellerophon/cache"
	"github.com/bellerophon-io/bellerophon/controller"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
)

// Servers are late once the patience has passed since their pods were created. The patience is twice as long
// as servers take now, because a busy cluster is slow for all: a watch of pods would tell nothing, and
// make it slower. It has bounds, because people ask sooner or later.
const (
	leastPatience = 3 * time.Second
	mostPatience  = 30 * time.Second
)

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

	pace pace // of servers, from the first pod until they are finished
}

// claim is a controller.Claim.
type claim interface {
	Current() bool
	Release()
}

type lateness struct {
	since   time.Time // when the first pod existed; zero before that
	overdue bool
}

func newLate(claim func() (claim, error)) *late {
	return &late{claim: claim, known: map[types.NamespacedName]lateness{}}
}

// done records that the servers of an object are finished, or gone.
func (l *late) done(name types.NamespacedName, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if held, known := l.known[name]; known && !held.since.IsZero() {
		l.pace.took(now.Sub(held.since), now)
	}
	l.set(name, lateness{}, false)
}

// wait records that the servers of an object are not finished, and whether any pod exists. It returns
// whether they are late, and otherwise how long until they are: 0 without pods. For late servers,
// current reports whether pods are in the cache. If wrong is true, the object was degraded before, and
// its servers are late at once.
func (l *late) wait(name types.NamespacedName, exist, wrong bool, now time.Time) (late bool, after time.Duration, current bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	held := l.known[name]
	if exist && held.since.IsZero() {
		held.since = now
	}
	if !held.since.IsZero() {
		after = l.pace.patience(leastPatience, mostPatience, now) - now.Sub(held.since)
		held.overdue = held.overdue || after <= 0
	}
	held.overdue = held.overdue || wrong
	if current = l.set(name, held, true); held.overdue {
		return true, 0, current
	}
	return false, after, false
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
	pods  []*owned.Pod
	after time.Duration // the delay of the next look at pods; 0 for none
	blind bool          // the status reports a problem, and pods are not in the cache to confirm it
}

// podsOf returns the pods of servers that are late.
func (r *reconciler) podsOf(ctx context.Context, hero *v1.BellerophonSimple, servers *owned.StatefulSet) seen {
	if servers == nil || isFinished(servers, replicasOf(hero)) {
		r.late.done(nameOf(hero), controller.Now(ctx))
		return seen{}
	}
	wrong := meta.IsStatusConditionTrue(hero.Status.Conditions, v1.ConditionDegraded)
	late, after, current := r.late.wait(nameOf(hero), servers.Observed >= servers.Generation && servers.Replicas > 0, wrong, controller.Now(ctx))
	switch {
	case !late:
		return seen{after: after} // Without pods, the first one is an event of the StatefulSet.
	case current:
		pods, err := controller.List[*owned.Pod](ctx, r.client, controller.InIndex(cache.OwnerIndex, string(servers.UID)))
		if err == nil {
			return seen{pods: pods}
		}
	}
	// When pods are listed, the problem of a pod is an event. Without permission, pods are never listed.
	return seen{after: blindWait, blind: wrong && hero.Status.ObservedGeneration == hero.Generation}
}
