package cache

import (
	"time"

	"github.com/bellerophon-io/bellerophon/streams"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
)

// causes makes the causes of changes, with one allocation for a whole batch.
type causes struct{ held []streams.Cause }

func (c *causes) of(event *streams.Event) []streams.Cause {
	if len(event.Coalesced) > 0 {
		return event.Causes()
	}
	if len(c.held) == cap(c.held) {
		c.held = make([]streams.Cause, 0, max(1, cap(c.held)))
	}
	at := len(c.held)
	c.held = append(c.held, streams.Cause{Type: event.Type, Key: event.Key, ResourceVersion: event.ResourceVersion, Received: event.Received})
	return c.held[at : at+1 : at+1]
}

// batch is the output of one call of Apply.
type batch struct {
	causes  causes
	changes []streams.Change
	touch   func() // ends the quiet period
	touched bool
}

// begin ends the quiet period, before readers can see the first change.
func (b *batch) begin() {
	if !b.touched {
		b.touched = true
		b.touch()
	}
}

func (b *batch) add(kind streams.ChangeType, event *streams.Event, before, after streams.Object) {
	b.begin()
	b.changes = append(b.changes, streams.Change{
		Type: kind, Key: event.Key, Old: before, New: after, Causes: b.causes.of(event), Received: event.Received,
	})
}

// apply takes in one event, and adds the changes that it makes. An object that comes, goes or moves
// is not visible to readers before publish.
func (s *Store) apply(event *streams.Event, to *batch) {
	switch event.Type {
	case streams.ListStart:
		s.scope(event.Key.Namespace)
		given := s.relists[event.Key.Namespace] // A list that the source has given up may have been a reset.
		s.relists[event.Key.Namespace] = &relist{
			required: event.ResourceVersion, asked: event.Received, reset: event.Reset || given != nil && given.reset,
		}
	case streams.Listed:
		if list := s.openList(event.Key.Namespace); list != nil && s.applied.Has(event.Object) {
			list.objects = append(list.objects, event.Object)
		}
	case streams.ListEnd:
		s.swap(event, to)
	case streams.Applied, streams.Deleted:
		s.events = append(s.events, event)
		s.see(event)
		switch {
		case !s.applied.Has(event.Object):
			s.leave(event, to)
		case event.Type == streams.Applied:
			s.update(event, to)
		default:
			s.deleted(event, to)
		}
	case streams.Selected:
		s.selected(event)
	case streams.Bookmark, streams.Disconnected, streams.Connected:
		s.mark(event)
	}
}

// mark takes in a bookmark or an event about the source's connection.
func (s *Store) mark(event *streams.Event) {
	scope := s.scope(event.Key.Namespace)
	switch event.Type {
	case streams.Disconnected:
		scope.lost, scope.resumed = true, event.Received
		s.loop.disturbed(event.Received)
	case streams.Connected:
		scope.lost, scope.required, scope.resumed = false, event.ResourceVersion, event.Received
		s.loop.disturbed(event.Received)
	default:
		scope.see(event.ResourceVersion)
		if !reached(scope.version, event.ResourceVersion) {
			scope.version = event.ResourceVersion
		}
		s.forgetDeletions(event.Received)
		if scope.version == event.ResourceVersion {
			scope.confirm(event.Received)
		}
		s.lastMark = event
	}
	s.moved = true
}

// scope returns the scope of a source, which it creates if it is new. A source of the whole cluster shows that
// the kind has no namespaces. Its scope replaces the scopes of SetNamespaces, which no source covers.
func (s *Store) scope(namespace string) *scope {
	if namespace == "" && s.limited && s.working.scopes.of("") == nil {
		s.working.scopes = nil
		s.moved = true
	}
	s.working.scopes = s.working.scopes.add(namespace)
	return s.working.scopes.of(namespace)
}

// see notes the version of an object's event.
func (s *Store) see(event *streams.Event) {
	if scope := s.working.scopes.of(event.Key.Namespace); scope != nil {
		scope.see(event.ResourceVersion)
	}
}

// find returns the slot of a name, including what the current batch has changed so far.
func (s *Store) find(name types.NamespacedName) *slot {
	if len(s.fresh) > 0 {
		if found, known := s.fresh[name]; known {
			return found
		}
	}
	return s.table.find(name)
}

// put stores an object, in the place of the one in held if that is not nil.
func (s *Store) put(held *slot, name types.NamespacedName, object streams.Object, to *batch) {
	to.begin()
	s.sizes.sample(object)
	s.mutations.track(streams.Key{GroupKind: s.kind, NamespacedName: name}, object)
	if held != nil {
		s.mutations.untrack(held.get())
		if old := held.get(); s.working.sameIndexValues(old, object) && held.replace(old, object) {
			return
		}
	}
	s.fresh[name] = s.working.put(held, object)
	s.moved = true
}

// drop removes an object.
func (s *Store) drop(held *slot, name types.NamespacedName, to *batch) {
	to.begin()
	s.mutations.untrack(held.get())
	s.working.remove(held)
	s.fresh[name] = nil
	s.moved = true
}

// update takes in an Applied event.
func (s *Store) update(event *streams.Event, to *batch) {
	name := event.Key.NamespacedName
	slot := s.find(name)
	if slot == nil {
		if s.tombstoned(name, event.Object) {
			s.note(ApplyAfterDelete, event)
			to.add(streams.Unchanged, event, nil, nil)
			return
		}
		s.put(nil, name, event.Object, to)
		to.add(streams.Added, event, nil, event.Object)
		return
	}
	held := slot.get()
	switch {
	case same(held, event.Object):
		return // It repeats what is held, as after a reconnect.
	case streams.IsOlderVersion(event.ResourceVersion, held.GetResourceVersion()):
		s.note(Older, event)
		to.add(streams.Unchanged, event, held, held)
	case held.GetUID() != event.Object.GetUID():
		s.note(Recreated, event)
		s.put(slot, name, event.Object, to)
		to.add(streams.Removed, event, held, nil)
		to.add(streams.Added, event, nil, event.Object)
	default:
		s.put(slot, name, event.Object, to)
		to.add(streams.Updated, event, held, event.Object)
	}
}

// same reports whether two states of an object are equal, by uid and version. Objects of some
// servers (metrics.k8s.io) have no versions; their contents are compared.
func same(held, object streams.Object) bool {
	version := object.GetResourceVersion()
	return held.GetResourceVersion() == version && held.GetUID() == object.GetUID() &&
		(version != "" || apiequality.Semantic.DeepEqual(held, object))
}

// tombstoned reports whether the state of an object that is not held is older than its deletion. An
// object that leaves a selector is emitted as deleted, and may come back with its uid.
func (s *Store) tombstoned(name types.NamespacedName, object streams.Object) bool {
	grave, known := s.tombstones.Peek(name) // Not Get: the oldest deletion is to stay the first.
	if known && grave.uid == object.GetUID() {
		return !streams.IsOlderVersion(grave.resourceVersion, object.GetResourceVersion())
	}
	return known && streams.IsOlderVersion(object.GetResourceVersion(), grave.resourceVersion)
}

// forgetDeletions forgets deletions that are older than tombstoneAge.
func (s *Store) forgetDeletions(now time.Time) {
	for {
		_, oldest, found := s.tombstones.GetOldest()
		if !found || now.Sub(oldest.received) < tombstoneAge {
			return
		}
		s.tombstones.RemoveOldest()
	}
}

// deleted takes in a Deleted event.
func (s *Store) deleted(event *streams.Event, to *batch) {
	name := event.Key.NamespacedName
	slot := s.find(name)
	if slot != nil && streams.IsOlderVersion(event.ResourceVersion, slot.get().GetResourceVersion()) {
		s.note(Older, event)
		to.add(streams.Unchanged, event, slot.get(), slot.get())
		return
	}
	if grave, known := s.tombstones.Peek(name); !known || !streams.IsOlderVersion(event.ResourceVersion, grave.resourceVersion) {
		s.tombstones.Add(name, tombstone{event.Object.GetUID(), event.ResourceVersion, event.Received})
	}
	if slot == nil {
		if len(event.Coalesced) == 0 { // Otherwise the creation was coalesced into this deletion.
			s.note(DeleteUnknown, event)
		}
		to.add(streams.Removed, event, event.Object, nil)
		return
	}
	s.drop(slot, name, to)
	to.add(streams.Removed, event, slot.get(), nil)
}

// publish makes the batch visible to readers. The trees come before the table, so that List finds
// everything that Get finds. The scopes come last: what they promise is then visible to both.
func (s *Store) publish() {
	if !s.moved {
		return
	}
	s.moved = false
	trees := s.working.copy()
	if len(s.fresh) > 0 {
		s.published.Store(&state{trees, s.published.Load().scopes, s.table})
	}
	for name, slot := range s.fresh {
		if slot == nil {
			s.table.remove(name)
		} else {
			s.table.set(slot)
		}
	}
	clear(s.fresh)
	s.published.Store(&state{trees, trees.scopes, s.table})
}
