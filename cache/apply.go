package cache

import (
	"github.com/bellerophon-io/bellerophon/streams"
)

// apply takes in one event and appends what it changes. Nothing is visible to readers
// before publish.
func (s *Store) apply(event streams.Event, changes []streams.Change) []streams.Change {
	switch event.Type {
	case streams.ListStart:
		s.relist = newView(s.working.indexers)
		s.relist.required = event.ResourceVersion
	case streams.Listed:
		if s.relist != nil {
			s.relist.put(keyOf(event.Key.NamespacedName), event.Object)
		}
	case streams.ListEnd:
		return s.swap(event, changes)
	case streams.Bookmark:
		s.advance(event.ResourceVersion)
	case streams.Applied:
		return s.applied(event, changes)
	case streams.Deleted:
		return s.deleted(event, changes)
	}
	return changes
}

func (s *Store) applied(event streams.Event, changes []streams.Change) []streams.Change {
	key := keyOf(event.Key.NamespacedName)
	s.advance(event.ResourceVersion)
	if grave, known := s.tombstones.Get(key); known &&
		(grave.uid == event.Object.GetUID() || streams.Older(event.ResourceVersion, grave.resourceVersion)) {
		s.note(ApplyAfterDelete, event)
		return append(changes, change(streams.Touched, event, nil, nil))
	}
	held, found := s.working.objects.Get(key)
	switch {
	case !found:
		s.working.put(key, event.Object)
		return append(changes, change(streams.Added, event, nil, event.Object))
	case streams.Older(event.ResourceVersion, held.GetResourceVersion()):
		s.note(Older, event)
		return append(changes, change(streams.Touched, event, held, held))
	case held.GetUID() != event.Object.GetUID():
		s.note(Recreated, event)
		s.working.put(key, event.Object)
		return append(changes,
			change(streams.Removed, event, held, nil),
			change(streams.Added, event, nil, event.Object))
	case held.GetResourceVersion() == event.ResourceVersion:
		return changes // A repetition, as after a reconnect.
	}
	s.working.put(key, event.Object)
	return append(changes, change(streams.Updated, event, held, event.Object))
}

func (s *Store) deleted(event streams.Event, changes []streams.Change) []streams.Change {
	key := keyOf(event.Key.NamespacedName)
	s.advance(event.ResourceVersion)
	held, found := s.working.objects.Get(key)
	if found && held.GetUID() != event.Object.GetUID() && streams.Older(event.ResourceVersion, held.GetResourceVersion()) {
		s.note(Older, event)
		return append(changes, change(streams.Touched, event, held, held))
	}
	s.tombstones.Add(key, tombstone{event.Object.GetUID(), event.ResourceVersion})
	if !found {
		if len(event.Folded) == 0 { // Otherwise its creation was folded into its deletion.
			s.note(DeleteUnknown, event)
		}
		return append(changes, change(streams.Removed, event, event.Object, nil))
	}
	s.working.remove(key)
	return append(changes, change(streams.Removed, event, held, nil))
}

// swap replaces everything by the list that has ended.
func (s *Store) swap(event streams.Event, changes []streams.Change) []streams.Change {
	list := s.relist
	s.relist = nil
	if list == nil {
		return changes
	}
	if s.working.listed && streams.Older(event.ResourceVersion, s.working.version) {
		s.note(OldList, event)
		return changes
	}
	s.working.objects.Scan(func(key string, held streams.Object) bool {
		if listed, still := list.objects.Get(key); !still || listed.GetUID() != held.GetUID() {
			s.tombstones.Add(key, tombstone{held.GetUID(), held.GetResourceVersion()})
			changes = append(changes, change(streams.Removed, eventOf(event, held), held, nil))
		}
		return true
	})
	list.objects.Scan(func(key string, listed streams.Object) bool {
		held, known := s.working.objects.Get(key)
		switch {
		case !known || held.GetUID() != listed.GetUID():
			changes = append(changes, change(streams.Added, eventOf(event, listed), nil, listed))
		case held.GetResourceVersion() != listed.GetResourceVersion():
			changes = append(changes, change(streams.Updated, eventOf(event, listed), held, listed))
		}
		return true
	})
	list.listed, list.version = true, event.ResourceVersion
	s.working = list
	return changes
}

// eventOf is the part of a list that tells of one object.
func eventOf(list streams.Event, object streams.Object) streams.Event {
	list.Type = streams.Listed
	list.Key = streams.KeyOf(list.Key.GroupKind, object)
	list.ResourceVersion = object.GetResourceVersion()
	return list
}

func change(kind streams.ChangeType, event streams.Event, before, after streams.Object) streams.Change {
	return streams.Change{
		Type: kind, Key: event.Key, Old: before, New: after, Causes: event.Causes(), Received: event.Received,
	}
}

// advance notes how far the source has come.
func (s *Store) advance(version string) {
	if s.working.version == "" || streams.Older(s.working.version, version) {
		s.working.version = version
	}
}

// publish makes what was applied visible to readers.
func (s *Store) publish() { s.published.Store(s.working.copy()) }
