package cache

import (
	"github.com/bellerophon-io/bellerophon/streams"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
)

// causes makes the causes of changes, for a whole batch in one allocation.
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

// batch is what one call of Apply makes.
type batch struct {
	causes  causes
	changes []streams.Change
	stir    func() // ends the calm
	stirred bool
}

// begin ends the calm, before readers can see the first change.
func (b *batch) begin() {
	if !b.stirred {
		b.stirred = true
		b.stir()
	}
}

func (b *batch) add(kind streams.ChangeType, event *streams.Event, before, after streams.Object) {
	b.begin()
	b.changes = append(b.changes, streams.Change{
		Type: kind, Key: event.Key, Old: before, New: after, Causes: b.causes.of(event), Received: event.Received,
	})
}

// apply takes in one event and adds what it changes. What moves is not visible to readers
// before publish.
func (s *Store) apply(event *streams.Event, to *batch) {
	switch event.Type {
	case streams.ListStart:
		s.scope(event.Key.Namespace)
		s.relists[event.Key.Namespace] = &relist{
			required: event.ResourceVersion, asked: event.Received, reset: event.Reset,
		}
	case streams.Listed:
		if list := s.listing(event.Key.Namespace); list != nil {
			list.objects = append(list.objects, event.Object)
		}
	case streams.ListEnd:
		s.swap(event, to)
	case streams.Applied:
		s.applied(event, to)
	case streams.Deleted:
		s.deleted(event, to)
	case streams.Bookmark, streams.Disconnected, streams.Connected:
		s.mark(event)
	}
}

// mark takes in what tells of the source, and of no object.
func (s *Store) mark(event *streams.Event) {
	scope := s.scope(event.Key.Namespace)
	switch event.Type {
	case streams.Disconnected:
		scope.lost, scope.resumed = true, event.Received
	case streams.Connected:
		scope.lost, scope.required, scope.resumed = false, event.ResourceVersion, event.Received
	default:
		scope.see(event.ResourceVersion)
		if !reached(scope.version, event.ResourceVersion) {
			scope.version = event.ResourceVersion
		}
		if scope.version == event.ResourceVersion {
			scope.confirm(event.Received)
		}
		s.marked = event
	}
	s.moved = true
}

// scope is that of a source, which may be new.
func (s *Store) scope(namespace string) *scope {
	s.working.scopes = s.working.scopes.add(namespace)
	return s.working.scopes.of(namespace)
}

// see notes the version of an event of an object.
func (s *Store) see(event *streams.Event) {
	if scope := s.working.scopes.of(event.Key.Namespace); scope != nil {
		scope.see(event.ResourceVersion)
	}
}

// find is the slot of a name, as what was applied so far has left it.
func (s *Store) find(name types.NamespacedName) *slot {
	if len(s.fresh) > 0 {
		if found, known := s.fresh[name]; known {
			return found
		}
	}
	return s.table.find(name)
}

// put puts an object in, in the place of another, if there is one.
func (s *Store) put(held *slot, name types.NamespacedName, object streams.Object, to *batch) {
	to.begin()
	s.sizes.sample(object)
	s.mutations.came(streams.Key{GroupKind: s.kind, NamespacedName: name}, object)
	if held != nil {
		s.mutations.went(held.get())
		if old := held.get(); s.working.stays(old, object) && held.replace(old, object) {
			return
		}
	}
	s.fresh[name] = s.working.put(held, object)
	s.moved = true
}

// drop takes an object out.
func (s *Store) drop(held *slot, name types.NamespacedName, to *batch) {
	to.begin()
	s.mutations.went(held.get())
	s.working.remove(held)
	s.fresh[name] = nil
	s.moved = true
}

func (s *Store) applied(event *streams.Event, to *batch) {
	name := event.Key.NamespacedName
	s.told = append(s.told, name)
	s.see(event)
	slot := s.find(name)
	if slot == nil {
		if s.buried(name, event.Object) {
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
		return // A repetition, as after a reconnect.
	case streams.OlderVersion(event.ResourceVersion, held.GetResourceVersion()):
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

// same reports whether two states of an object are equal: by uid and version. Objects of some
// servers (metrics.k8s.io) have no versions; their contents are compared.
func same(held, object streams.Object) bool {
	version := object.GetResourceVersion()
	return held.GetResourceVersion() == version && held.GetUID() == object.GetUID() &&
		(version != "" || apiequality.Semantic.DeepEqual(held, object))
}

// buried says whether a state of an object that is not held is older than its deletion. An
// object that left a selector was told as deleted and may come back, with its uid.
func (s *Store) buried(name types.NamespacedName, object streams.Object) bool {
	grave, known := s.tombstones.Get(name)
	if known && grave.uid == object.GetUID() {
		return !streams.OlderVersion(grave.resourceVersion, object.GetResourceVersion())
	}
	return known && streams.OlderVersion(object.GetResourceVersion(), grave.resourceVersion)
}

func (s *Store) deleted(event *streams.Event, to *batch) {
	name := event.Key.NamespacedName
	s.told = append(s.told, name)
	s.see(event)
	slot := s.find(name)
	if slot != nil && streams.OlderVersion(event.ResourceVersion, slot.get().GetResourceVersion()) {
		s.note(Older, event)
		to.add(streams.Unchanged, event, slot.get(), slot.get())
		return
	}
	if grave, known := s.tombstones.Peek(name); !known || !streams.OlderVersion(event.ResourceVersion, grave.resourceVersion) {
		s.tombstones.Add(name, tombstone{event.Object.GetUID(), event.ResourceVersion})
	}
	if slot == nil {
		if len(event.Coalesced) == 0 { // Otherwise its creation was folded into its deletion.
			s.note(DeleteUnknown, event)
		}
		to.add(streams.Removed, event, event.Object, nil)
		return
	}
	s.drop(slot, name, to)
	to.add(streams.Removed, event, slot.get(), nil)
}

// publish makes what was applied visible to readers: the trees before the table, so that
// what Get finds, List finds too.
func (s *Store) publish() {
	if !s.moved {
		return
	}
	s.moved = false
	s.published.Store(&state{s.working.copy(), s.table})
	for name, slot := range s.fresh {
		if slot == nil {
			s.table.remove(name)
		} else {
			s.table.set(slot)
		}
	}
	clear(s.fresh)
}
