package cache

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bellerophon-io/bellerophon/streams"
	"github.com/tidwall/btree"
	"k8s.io/apimachinery/pkg/types"
)

// overlay holds own writes that the watch has not passed yet. Writers lock it; readers
// load what is published, and they load it before the store's state: an entry leaves
// only after a state is published that has passed it, so one of the two always has it.
type overlay struct {
	published atomic.Pointer[ownView] // nil while there is none

	mu      sync.Mutex
	working *view
	pending map[types.NamespacedName]pendingWrite // what is in working
	hidden  *btree.BTreeG[hiddenDeletion]         // own deletions
}

type pendingWrite struct {
	slot     *slot     // of working
	since    time.Time // when what led to the write was received, or zero
	answered time.Time
}

type hiddenDeletion struct {
	name  types.NamespacedName
	uid   types.UID
	since time.Time
}

// ownView is one published state of an overlay. Nothing changes it.
type ownView struct {
	view   *view
	hidden *btree.BTreeG[hiddenDeletion]
}

func (o *overlay) init(indexers []Indexer) {
	o.working = newView(indexers)
	o.pending = map[types.NamespacedName]pendingWrite{}
	o.hidden = btree.NewBTreeGOptions(func(a, b hiddenDeletion) bool {
		if order := compareNames(a.name, b.name); order != 0 {
			return order < 0
		}
		return a.uid < b.uid // Answers come in any order: that of an older object may be late.
	}, btree.Options{Degree: degree, NoLocks: true})
}

// get is what a reader sees of a name, of which the store holds an object, or nil.
func (o *ownView) get(name types.NamespacedName, held streams.Object) (streams.Object, bool) {
	if written := o.view.find(name); written != nil {
		own := written.get()
		if held == nil || streams.OlderVersion(held.GetResourceVersion(), own.GetResourceVersion()) {
			held = own
		}
	}
	if held == nil {
		return nil, false
	}
	if _, hides := o.hidden.Get(hiddenDeletion{name: name, uid: held.GetUID()}); hides {
		return nil, false
	}
	return held, true
}

// RecordWrite makes an own write visible to readers: object is what the API server answered.
// The reads that follow see it, until the watch has passed it. since is when the event
// was received that led to the write, or zero: it makes the loop duration. It may be
// called from any goroutine, in any order. It is true if the watch was faster than the
// answer. A write to a namespace that no source covers stays invisible.
func (s *Store) RecordWrite(object streams.Object, since time.Time) (passed bool) {
	name, version := nameOf(object), object.GetResourceVersion()
	o := &s.overlay
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case !s.covers(name.Namespace):
		return false // No source will ever say that the watch has passed it.
	case s.passed(name, version):
		s.echoed(0)
		s.measure(name.Namespace, since)
		return true
	}
	before := o.pending[name].slot
	if before != nil && streams.OlderVersion(version, before.get().GetResourceVersion()) {
		return false // A later write of ours answered first.
	}
	s.mutations.came(streams.Key{GroupKind: s.kind, NamespacedName: name}, object)
	s.mutations.reads(object) // By the caller, who has it from the API server.
	if before != nil {
		s.mutations.went(before.get())
	}
	o.pending[name] = pendingWrite{o.working.put(before, object), since, time.Now()}
	o.publish()
	s.changed()
	return false
}

// RecordDeletion hides an object that the API server has said is gone, until the watch
// says so too. It may be called from any goroutine.
func (s *Store) RecordDeletion(name types.NamespacedName, uid types.UID, since time.Time) {
	o := &s.overlay
	o.mu.Lock()
	defer o.mu.Unlock()
	if !s.shows(name, uid) {
		return // The watch was faster than the answer.
	}
	o.hidden.Set(hiddenDeletion{name, uid, since})
	o.publish()
	s.changed()
}

// passed says whether the source has told of a name what it was at a version, or later.
// Events of other names prove nothing: a stream keeps the order of one key only, and one
// that is debounced lets a quiet key overtake a busy one.
func (s *Store) passed(name types.NamespacedName, version string) bool {
	base := s.published.Load()
	if scope := base.scopes.of(name.Namespace); scope != nil && reached(scope.version, version) {
		return true
	}
	if held := base.table.find(name); held != nil {
		return reached(held.get().GetResourceVersion(), version)
	}
	grave, known := s.tombstones.Peek(name)
	return known && reached(grave.resourceVersion, version)
}

// shows says whether readers would see an object, if no own deletion hid it. The lock of
// the overlay is held.
func (s *Store) shows(name types.NamespacedName, uid types.UID) bool {
	if held := s.published.Load().table.find(name); held != nil && held.get().GetUID() == uid {
		return true
	}
	own := s.overlay.pending[name].slot
	return own != nil && own.get().GetUID() == uid
}

// covers reports whether a source covers a namespace.
func (s *Store) covers(namespace string) bool {
	return !s.limited || s.published.Load().scopes.of(namespace) != nil
}

// measure takes the time since an event into the loop duration, if that is what it is.
func (s *Store) measure(namespace string, since time.Time) {
	if scope := s.published.Load().scopes.of(namespace); scope != nil && scope.measures(since) {
		s.loop.Observe(time.Since(since))
	}
}

// settleWrites drops what the published state has passed, of what the events since the last
// time were of. It takes the lock even if there seems to be nothing to drop: Wrote may be
// about to add what the state has just passed.
func (s *Store) settleWrites(to *batch) {
	o := &s.overlay
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.pending) > 0 || o.hidden.Len() > 0 {
		dropped := false
		for _, name := range s.told {
			dropped = s.settle(name, true, to) || dropped
		}
		if s.marked != nil { // A list or a bookmark may have passed any.
			for _, name := range o.names() {
				dropped = s.settle(name, false, to) || dropped
			}
		}
		dropped = s.forgetWrites(to) || dropped
		if dropped {
			o.publish()
		}
	}
	clear(s.told)
	s.told, s.marked, s.reset = s.told[:0], nil, time.Time{}
}

// forgetWrites drops own writes from before a list that is a reset: no version will ever
// pass them. The lock is held.
func (s *Store) forgetWrites(to *batch) (dropped bool) {
	if s.reset.IsZero() {
		return false
	}
	o := &s.overlay
	for name, pending := range o.pending {
		if !pending.answered.Before(s.reset) {
			continue
		}
		own := pending.slot.get()
		delete(o.pending, name)
		o.working.remove(pending.slot)
		if held := s.published.Load().table.find(name); held != nil { // Readers see that again.
			event := *s.marked
			event.Key = streams.Key{GroupKind: s.kind, NamespacedName: name}
			to.add(streams.Updated, &event, own, held.get())
		}
		s.vanished(name, own, to)
		s.mutations.went(own)
		dropped = true
	}
	dropped = dropped || o.hidden.Len() > 0
	o.hidden.Clear()
	return dropped
}

// settle drops own writes of a name that are passed. Those that an event of the name has
// passed are a loop; a list or a bookmark comes at a time of its own. The lock is held.
func (s *Store) settle(name types.NamespacedName, byEvent bool, to *batch) (dropped bool) {
	o := &s.overlay
	if pending, wrote := o.pending[name]; wrote && s.passed(name, pending.slot.get().GetResourceVersion()) {
		delete(o.pending, name)
		o.working.remove(pending.slot)
		s.vanished(name, pending.slot.get(), to)
		s.mutations.went(pending.slot.get())
		if dropped = true; byEvent {
			s.measure(name.Namespace, pending.since)
		}
		s.echoed(time.Since(pending.answered))
	}
	for _, deletion := range o.hiddenOf(name) {
		if s.shows(name, deletion.uid) {
			continue
		}
		o.hidden.Delete(deletion)
		if dropped = true; byEvent {
			s.measure(name.Namespace, deletion.since)
		}
	}
	return dropped
}

// names returns the names of all own writes and deletions.
func (o *overlay) names() []types.NamespacedName {
	names := slices.Collect(maps.Keys(o.pending))
	o.hidden.Scan(func(deletion hiddenDeletion) bool {
		names = append(names, deletion.name)
		return true
	})
	return names
}

// vanished tells of an object that readers saw by our write alone: the source has not told
// of it, and by a list or a bookmark it is past the write. Somebody has deleted it since, or
// a selector hides it.
func (s *Store) vanished(name types.NamespacedName, object streams.Object, to *batch) {
	if s.marked == nil || s.published.Load().table.find(name) != nil {
		return
	}
	if grave, known := s.tombstones.Peek(name); known && grave.uid == object.GetUID() {
		return // It was told as removed.
	}
	event := *s.marked
	event.Key = streams.Key{GroupKind: s.kind, NamespacedName: name}
	to.add(streams.Removed, &event, object, nil)
}

// hiddenOf is the own deletions of objects of a name.
func (o *overlay) hiddenOf(name types.NamespacedName) (all []hiddenDeletion) {
	o.hidden.Ascend(hiddenDeletion{name: name}, func(deletion hiddenDeletion) bool {
		if deletion.name != name {
			return false
		}
		all = append(all, deletion)
		return true
	})
	return all
}

// publish shows readers the state as it is. The lock is held.
func (o *overlay) publish() {
	if len(o.pending) == 0 && o.hidden.Len() == 0 {
		o.published.Store(nil)
		return
	}
	o.published.Store(&ownView{view: o.working.copy(), hidden: o.hidden.Copy()})
}

func (o *overlay) empty() bool { return o.published.Load() == nil }
