package simple

import (
	"sync"
	"time"

	v1 "github.com/bellerophon-io/bellerophon/bellerophon/api/simple/v1"
	"github.com/bellerophon-io/bellerophon/bellerophon/owned"
	"github.com/hashicorp/golang-lru/v2/simplelru"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// leastRest and mostRest bound a rest, which is the time between two starts of work on the specification
	// of one object. Such work takes three writes of the operator, and further ones of the controller
	// manager. They compete with the next changes for the API server.
	leastRest = time.Second
	mostRest  = 8 * time.Second
	// restsRemembered bounds the memory. A change of an object that is forgotten does not wait.
	restsRemembered = 1 << 13
)

// throttle decides when a changed specification is worked on: the first change at once, and of the
// changes during the rest after it only the latest, when the rest is over. ReactiveX calls this
// throttleLatest. A rest is four times as long as such work takes now, from its start until the
// StatefulSet controller has followed. It ends earlier if the object has not changed for half of
// it: a ReactiveX debounce. It does not end before the work on the object itself has, within the bounds.
//
// The times are the starts of attempts, so that a replay decides as the recorded operator did. The
// methods may be called from any goroutine.
type throttle struct {
	mu    sync.Mutex
	rests *simplelru.LRU[types.UID, rest]
	pace  pace // of work, from its start until the StatefulSet controller has followed
}

// rest is the time during which the generations of an object wait, other than the one last worked on.
type rest struct {
	generation int64     // last worked on
	began      time.Time // of the work
	latest     int64     // the latest generation that waits
	changed    time.Time // when it was seen first
	awaits     int64     // the generation of the StatefulSet that its controller has not seen yet; 0 for none
}

func newThrottle() *throttle {
	rests, err := simplelru.NewLRU[types.UID, rest](restsRemembered, nil)
	if err != nil {
		panic(err) // Only for a size below 1.
	}
	return &throttle{rests: rests}
}

// wait returns how long the work on an object has to wait, or 0 to do it now.
func (t *throttle) wait(hero *v1.BellerophonSimple, now time.Time) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	last, known := t.rests.Peek(hero.UID)
	if !known || last.generation == hero.Generation {
		return 0
	}
	if last.latest != hero.Generation {
		last.latest, last.changed = hero.Generation, now
		t.rests.Add(hero.UID, last)
	}
	lasts := 2 * t.pace.patience(leastRest/2, mostRest/2, now)
	if last.awaits > 0 {
		lasts = mostRest // An event of the StatefulSet comes first.
	}
	return max(0, min(last.began.Add(lasts).Sub(now), last.changed.Add(lasts/2).Sub(now)))
}

// worked notes that work on an object begins now.
func (t *throttle) worked(hero *v1.BellerophonSimple, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if last, known := t.rests.Peek(hero.UID); !known || last.generation != hero.Generation {
		t.rests.Add(hero.UID, rest{generation: hero.Generation, began: now})
	}
}

// wrote notes the StatefulSet that the work on an object has made.
func (t *throttle) wrote(hero *v1.BellerophonSimple, servers *owned.StatefulSet) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if last, known := t.rests.Peek(hero.UID); known && servers.Observed < servers.Generation {
		last.awaits = servers.Generation
		t.rests.Add(hero.UID, last)
	}
}

// saw notes the StatefulSet of an object in the cache. The work has ended if its controller has followed.
func (t *throttle) saw(hero *v1.BellerophonSimple, servers *owned.StatefulSet, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if last, known := t.rests.Peek(hero.UID); known && last.awaits > 0 && servers.Observed >= last.awaits {
		t.pace.took(now.Sub(last.began), now)
		last.awaits = 0
		t.rests.Add(hero.UID, last)
	}
}

// held returns how long the interim status of an object is held back: a second, and for a new object
// twice as long as work takes now, within bounds.
func (t *throttle) held(hero *v1.BellerophonSimple, now time.Time) time.Duration {
	if !isNew(hero) {
		return progressEvery
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.pace.patience(progressEvery, mostHeld, now)
}

// isChanged reports whether the status of an object does not show its specification yet.
func isChanged(hero *v1.BellerophonSimple) bool {
	return hero.Status.ObservedGeneration != hero.Generation
}
