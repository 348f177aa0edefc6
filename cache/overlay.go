package cache

import (
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bellerophon-io/bellerophon/streams"
	"k8s.io/apimachinery/pkg/types"
)

// overlay holds own writes that the watch has not passed yet. Writers lock it; readers
// load what is published, and they load it before the store's view: an entry leaves
// only after a view is published that has passed it, so one of the two always has it.
type overlay struct {
	published atomic.Pointer[ownView] // nil while there is none

	mu      sync.Mutex
	working *view
	pending map[string]pendingWrite   // by key: what is in working
	hidden  map[string]hiddenDeletion // by key: own deletions
}

type pendingWrite struct {
	resourceVersion string
	since           time.Time // when what led to the write was received, or zero
	answered        time.Time
}

type hiddenDeletion struct {
	uid   types.UID
	since time.Time
}

// ownView is one published state of an overlay.
type ownView struct {
	view   *view
	hidden map[string]hiddenDeletion
}

// get is what a reader sees of a key, of which the view holds an object, or none.
func (o *ownView) get(key string, held streams.Object, found bool) (streams.Object, bool) {
	own, wrote := o.view.objects.Get(key)
	if wrote && (!found || streams.Older(held.GetResourceVersion(), own.GetResourceVersion())) {
		held, found = own, true
	}
	if deleted, hides := o.hidden[key]; hides && found && held.GetUID() == deleted.uid {
		return nil, false
	}
	return held, found
}

// Wrote makes an own write visible to readers: object is what the API server answered.
// The reads that follow see it, until the watch has passed it. since is when the event
// was received that led to the write, or zero: it makes the loop duration. It may be
// called from any goroutine, in any order.
func (s *Store) Wrote(object streams.Object, since time.Time) (passed bool) {
	key, version := keyOf(nameOf(object)), object.GetResourceVersion()
	s.overlay.mu.Lock()
	defer s.overlay.mu.Unlock()
	if s.passed(key, version) {
		s.echoed(0)
		return true // The watch was faster than the answer.
	}
	if pending, known := s.overlay.pending[key]; known && streams.Older(version, pending.resourceVersion) {
		return false // A later write of ours answered first.
	}
	if s.overlay.pending == nil {
		s.overlay.pending = map[string]pendingWrite{}
	}
	s.overlay.pending[key] = pendingWrite{version, since, time.Now()}
	s.overlay.working.put(key, object)
	s.overlay.publish()
	s.changed()
	return false
}

// WroteDeletion hides an object that the API server has said is gone, until the watch
// says so too. It may be called from any goroutine.
func (s *Store) WroteDeletion(name types.NamespacedName, uid types.UID, since time.Time) {
	key := keyOf(name)
	s.overlay.mu.Lock()
	defer s.overlay.mu.Unlock()
	if !s.shows(key, uid) {
		return // The watch was faster than the answer.
	}
	if s.overlay.hidden == nil {
		s.overlay.hidden = map[string]hiddenDeletion{}
	}
	s.overlay.hidden[key] = hiddenDeletion{uid, since}
	s.overlay.publish()
	s.changed()
}

// passed says whether the source has told of a key what it was at a version, or later.
// Events of other keys prove nothing: a stream keeps the order of one key only, and one
// that is debounced lets a quiet key overtake a busy one.
func (s *Store) passed(key, version string) bool {
	base := s.published.Load()
	if reached(base.version, version) {
		return true
	}
	if held, found := base.objects.Get(key); found {
		return reached(held.GetResourceVersion(), version)
	}
	grave, known := s.tombstones.Peek(key)
	return known && reached(grave.resourceVersion, version)
}

// reached says whether a resource version, if there is one, is another or newer.
func reached(at, version string) bool { return at != "" && !streams.Older(at, version) }

// shows says whether readers would see an object, if no own deletion hid it. The lock of
// the overlay is held.
func (s *Store) shows(key string, uid types.UID) bool {
	if held, found := s.published.Load().objects.Get(key); found && held.GetUID() == uid {
		return true
	}
	own, wrote := s.overlay.working.objects.Get(key)
	return wrote && own.GetUID() == uid
}

// settleWrites drops what the published view has passed, and returns since when each
// write had been on its way, where that is known. It takes the lock even if there seems
// to be nothing to drop: Wrote may be about to add what the view has just passed.
func (s *Store) settleWrites() []time.Time {
	o := &s.overlay
	o.mu.Lock()
	defer o.mu.Unlock()
	var since []time.Time
	for key, pending := range o.pending {
		if s.passed(key, pending.resourceVersion) {
			delete(o.pending, key)
			o.working.remove(key)
			since = append(since, pending.since)
			s.echoed(time.Since(pending.answered))
		}
	}
	for key, deletion := range o.hidden {
		if !s.shows(key, deletion.uid) {
			delete(o.hidden, key)
			since = append(since, deletion.since)
		}
	}
	if len(since) > 0 {
		o.publish()
	}
	return since
}

// publish shows readers the state as it is. The lock is held.
func (o *overlay) publish() {
	if len(o.pending) == 0 && len(o.hidden) == 0 {
		o.published.Store(nil)
		return
	}
	o.published.Store(&ownView{view: o.working.copy(), hidden: maps.Clone(o.hidden)})
}

func (o *overlay) empty() bool { return o.published.Load() == nil }
