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

// overlay holds own writes that the watch has not passed yet. Writers lock it. Readers load the
// published state without a lock.
//
// Readers load it before the store's state. An entry leaves only after a state is published that
// has passed it, so one of the two always has it.
type overlay struct {
	published atomic.Pointer[ownView] // nil while the overlay is empty

	mu      sync.Mutex
	working *view
	pending map[types.NamespacedName]pendingWrite // the writes in working
	hidden  *btree.BTreeG[hiddenDeletion]         // own deletions
}

// pendingWrite is an own write that the watch has not passed.
type pendingWrite struct {
	slot     *slot     // in working
	since    time.Time // when the event that led to the write was received, or zero
	answered time.Time
}

// hiddenDeletion is an own deletion that the watch has not passed. It hides the object.
type hiddenDeletion struct {
	name  types.NamespacedName
	uid   types.UID
	since time.Time
}

// ownView is a published, immutable snapshot of an overlay.
type ownView struct {
	view   *view
	hidden *btree.BTreeG[hiddenDeletion]
}

// init prepares an overlay for use.
func (o *overlay) init(indexers []Indexer) {
	o.working = newView(indexers)
	o.pending = map[types.NamespacedName]pendingWrite{}
	o.hidden = btree.NewBTreeGOptions(func(a, b hiddenDeletion) bool {
		if order := compareNames(a.name, b.name); order != 0 {
			return order < 0
		}
		// Answers come in any order: the answer for an older object of the same name may be late.
		return a.uid < b.uid
	}, btree.Options{Degree: degree, NoLocks: true})
}

// get returns what a reader sees under a name. held is the object that the store has, or nil.
func (o *ownView) get(name types.NamespacedName, held streams.Object) (streams.Object, bool) {
	if written := o.view.find(name); written != nil {
		own := written.get()
		if held == nil || streams.IsOlderVersion(held.GetResourceVersion(), own.GetResourceVersion()) {
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

// RecordWrite makes an own write visible to readers. object is the API server's answer. Later reads
// see it, until the watch has passed it. since is when the event that led to the write was
// received, or zero; the loop duration is measured from it. asked is when the write was sent, or zero. An answer
// that is older than a version that the server had confirmed before asked means that its versions went back.
//
// It may be called from any goroutine, in any order. It returns true if the watch was faster than
// the answer. A write to a namespace that no source covers stays invisible, and so does a write outside of the
// selection.
func (s *Store) RecordWrite(object streams.Object, since, asked time.Time) (passed bool) {
	name, version := nameOf(object), object.GetResourceVersion()
	o := &s.overlay
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case !s.covers(name.Namespace), !s.Selects(object):
		return false // No source will ever report that the watch has passed it.
	case s.passed(name, version) && !s.wentBack(name, version, asked):
		s.echoed(0)
		s.observeEcho(name.Namespace, since)
		return true
	}
	before := o.pending[name].slot
	if before != nil && streams.IsOlderVersion(version, before.get().GetResourceVersion()) {
		return false // A later own write was answered first.
	}
	s.mutations.track(streams.Key{GroupKind: s.kind, NamespacedName: name}, object)
	s.mutations.noteReads(object) // The caller has the object too, as the API server's answer.
	if before != nil {
		s.mutations.untrack(before.get())
	}
	o.pending[name] = pendingWrite{o.working.put(before, object), since, time.Now()}
	o.publish()
	s.changed()
	return false
}

// RecordDeletion hides an object that is gone by the API server's answer, until the watch reports
// that too. It may be called from any goroutine.
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

// passed reports whether the source has reported a name's state at a version or later. Events of
// other names prove nothing. A stream keeps the order of one key only, and behind the debounce a
// quiet key overtakes a busy one.
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

// wentBack reports whether the version of a write shows that the server's versions went back, which the
// source does not know yet. Before the write was sent, the server had confirmed a version, and the write has
// that version or an earlier one. A write that changes nothing has an earlier version too, which the store
// then has. The write stays in the overlay until the next list or bookmark.
func (s *Store) wentBack(name types.NamespacedName, version string, asked time.Time) bool {
	base := s.published.Load()
	scope := base.scopes.of(name.Namespace)
	if asked.IsZero() || scope == nil || !scope.confirmed.Before(asked) || !reached(scope.version, version) {
		return false
	}
	if held := base.table.find(name); held != nil {
		return !reached(held.get().GetResourceVersion(), version)
	}
	grave, known := s.tombstones.Peek(name) // A write that changes nothing may race with a deletion.
	return !known || !reached(grave.resourceVersion, version)
}

// ends reports whether an own write leaves the overlay, since the watch has passed it. The event of its
// object, if there is one, passes a write without a version. A list that was requested after the answer
// does, too.
func (s *Store) ends(pending pendingWrite, event *streams.Event) bool {
	name, version := pending.slot.name(), pending.slot.get().GetResourceVersion()
	if version != "" || event != nil {
		return version == "" || s.passed(name, version)
	}
	scope := s.published.Load().scopes.of(name.Namespace)
	return scope != nil && scope.confirmed.After(pending.answered)
}

// shows reports whether readers would see an object if no own deletion hid it. The caller holds the
// lock of the overlay.
func (s *Store) shows(name types.NamespacedName, uid types.UID) bool {
	if held := s.published.Load().table.find(name); held != nil && held.get().GetUID() == uid {
		return true
	}
	own := s.overlay.pending[name].slot
	return own != nil && own.get().GetUID() == uid
}

// covers reports whether a source covers a namespace. An object without one is covered: its kind has a source
// of the whole cluster, or will have one when the API server has shown that the kind has no namespaces.
func (s *Store) covers(namespace string) bool {
	return !s.limited || namespace == "" || s.published.Load().scopes.of(namespace) != nil
}

// settleWrites drops the own writes that the published state has passed. It looks at the names of
// the events since the last call, and at all names after a list or a bookmark.
//
// It takes the lock even if there seems to be nothing to drop. RecordWrite may be about to add a
// write that the state has just passed.
func (s *Store) settleWrites(to *batch) {
	o := &s.overlay
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.pending) > 0 || o.hidden.Len() > 0 {
		dropped := false
		for _, event := range slices.Backward(s.events) { // The last event of a name is the one that counts.
			dropped = s.dropPassed(event.Key.NamespacedName, event, to) || dropped
		}
		if s.lastMark != nil { // A list or a bookmark may have passed any write.
			for _, name := range o.names() {
				dropped = s.dropPassed(name, nil, to) || dropped
			}
		}
		dropped = s.dropBeforeReset(to) || dropped
		if dropped {
			o.publish()
		}
	}
	clear(s.events)
	clear(s.resets)
	s.events, s.lastMark = s.events[:0], nil
}

// resetAfter returns when the list was asked for that was the last reset of a namespace, or zero.
func (s *Store) resetAfter(namespace string) time.Time {
	if of, is := s.resets[namespace]; is {
		return of
	}
	return s.resets[""]
}

// dropBeforeReset drops own writes from before a list that is a reset: no version will ever pass
// them. A source that covers another namespace has not noticed the reset so far, and the cache has its objects of before. So
// own writes there stay until it has: otherwise readers would see what was before them. The caller holds the lock.
func (s *Store) dropBeforeReset(to *batch) (dropped bool) {
	if len(s.resets) == 0 {
		return false
	}
	o := &s.overlay
	for name, pending := range o.pending {
		if reset := s.resetAfter(name.Namespace); reset.IsZero() || !pending.answered.Before(reset) {
			continue
		}
		own := pending.slot.get()
		delete(o.pending, name)
		o.working.remove(pending.slot)
		if held := s.published.Load().table.find(name); held != nil { // Readers see this object again.
			event := *s.lastMark
			event.Key = streams.Key{GroupKind: s.kind, NamespacedName: name}
			to.add(streams.Updated, &event, own, held.get())
		}
		s.addRemoval(name, own, to)
		s.mutations.untrack(own)
		dropped = true
	}
	var gone []hiddenDeletion
	o.hidden.Scan(func(deletion hiddenDeletion) bool {
		if !s.resetAfter(deletion.name.Namespace).IsZero() {
			gone = append(gone, deletion)
		}
		return true
	})
	for _, deletion := range gone {
		o.hidden.Delete(deletion)
	}
	return dropped || len(gone) > 0
}

// dropPassed drops the own writes of a name that the watch has passed. An event of the name that has
// passed them measures a loop. A list or a bookmark, for which event is nil, measures none, since it
// comes at a time of its own. The caller holds the lock.
func (s *Store) dropPassed(name types.NamespacedName, event *streams.Event, to *batch) (dropped bool) {
	o := &s.overlay
	if pending, wrote := o.pending[name]; wrote && s.ends(pending, event) {
		delete(o.pending, name)
		o.working.remove(pending.slot)
		if !s.addRemoval(name, pending.slot.get(), to) {
			s.addOverwritten(name, pending.slot.get(), event, to)
		}
		s.mutations.untrack(pending.slot.get())
		if dropped = true; event != nil {
			s.observeEcho(name.Namespace, pending.since)
		}
		s.echoed(time.Since(pending.answered))
	}
	for _, deletion := range o.hiddenOf(name) {
		if s.shows(name, deletion.uid) {
			continue
		}
		o.hidden.Delete(deletion)
		if dropped = true; event != nil {
			s.observeEcho(name.Namespace, deletion.since)
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

// addRemoval adds the removal of an object that readers saw by an own write alone. The source has
// not reported the object, and a list or bookmark shows that the watch is past the write. So
// another client has deleted the object since, or a selector hides it. It returns false if there
// is no such removal.
func (s *Store) addRemoval(name types.NamespacedName, object streams.Object, to *batch) bool {
	if s.lastMark == nil || s.published.Load().table.find(name) != nil {
		return false
	}
	if grave, known := s.tombstones.Peek(name); known && grave.uid == object.GetUID() {
		return false // Its removal has been emitted already.
	}
	event := *s.lastMark
	event.Key = streams.Key{GroupKind: s.kind, NamespacedName: name}
	to.add(streams.Removed, &event, object, nil)
	return true
}

// addOverwritten adds a change for an own write that the source never reported, because it reports
// only a later state: another client has overwritten the own write, or deleted the object. The other
// changes of the batch do not have the own write as their old state, yet readers saw it. Without this
// change, its owner would not learn that the object is no longer the owner's.
func (s *Store) addOverwritten(name types.NamespacedName, own streams.Object, event *streams.Event, to *batch) {
	var now streams.Object
	if held := s.published.Load().table.find(name); held != nil {
		now = held.get()
	}
	if now != nil && same(now, own) {
		return // The source has reported the own write itself.
	}
	if event == nil {
		by := *s.lastMark
		by.Key = streams.Key{GroupKind: s.kind, NamespacedName: name}
		event = &by
	}
	to.add(streams.Unchanged, event, own, now)
}

// hiddenOf returns the own deletions of objects with a name.
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

// publish shows readers the current state. The caller holds the lock.
func (o *overlay) publish() {
	if len(o.pending) == 0 && o.hidden.Len() == 0 {
		o.published.Store(nil)
		return
	}
	o.published.Store(&ownView{view: o.working.copy(), hidden: o.hidden.Copy()})
}

// empty reports whether there are no own writes or deletions to show.
func (o *overlay) empty() bool { return o.published.Load() == nil }
