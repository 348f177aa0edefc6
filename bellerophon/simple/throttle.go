package simple

import (
	"time"

	v1 "github.com/bellerophon-io/bellerophon/bellerophon/api/simple/v1"
	lru "github.com/hashicorp/golang-lru/v2"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// restFor is the least time between two starts of work on the specification of one object. Such work
	// takes three writes of the operator, and further ones of the controller manager. They compete with
	// the next changes for the API server.
	restFor = time.Second
	// restsRemembered bounds the memory. A change of an object that is forgotten does not wait.
	restsRemembered = 1 << 10
)

// throttle decides when a changed specification is worked on: the first change at once, and of the
// changes during the rest after it only the latest, when the rest is over. ReactiveX calls this
// throttleLatest. An object that changes again while it is worked on changes faster than the API server
// takes the writes. It rests twice as long.
//
// The times are the starts of attempts, so that a replay decides as the recorded operator did. The
// methods may be called from any goroutine.
type throttle struct {
	rests *lru.Cache[types.UID, rest]
}

// rest is the time during which the generations of an object wait, other than the one last worked on.
type rest struct {
	generation int64
	until      time.Time
	overtaken  bool // the object changed while it was worked on
}

func newThrottle() *throttle {
	rests, err := lru.New[types.UID, rest](restsRemembered)
	if err != nil {
		panic(err) // Only for a size below 1.
	}
	return &throttle{rests}
}

// wait returns how long the work on an object has to wait, or 0 to do it now.
func (t *throttle) wait(hero *v1.BellerophonSimple, now time.Time) time.Duration {
	last, known := t.rests.Peek(hero.UID)
	if !known || last.generation == hero.Generation {
		return 0
	}
	return max(0, last.until.Sub(now))
}

// worked notes that work on an object begins now.
func (t *throttle) worked(hero *v1.BellerophonSimple, now time.Time) {
	if last, known := t.rests.Peek(hero.UID); !known || last.generation != hero.Generation {
		t.rests.Add(hero.UID, rest{hero.Generation, now.Add(restFor), false})
	}
}

// overtaken notes that the status of an object could not be written, as the object had changed again.
func (t *throttle) overtaken(hero *v1.BellerophonSimple) {
	if last, known := t.rests.Peek(hero.UID); known && last.generation == hero.Generation && !last.overtaken {
		t.rests.Add(hero.UID, rest{last.generation, last.until.Add(restFor), true})
	}
}

// isChanged reports whether the status of an object does not show its specification yet.
func isChanged(hero *v1.BellerophonSimple) bool {
	return hero.Status.ObservedGeneration != hero.Generation
}
