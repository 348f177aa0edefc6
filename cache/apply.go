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
		s.see(event.ResourceVersion)
		if !reached(s.working.version, event.ResourceVersion) {
			s.working.version = event.ResourceVersion
		}
	case streams.Applied:
		return s.applied(event, changes)
	case streams.Deleted:
		return s.deleted(event, changes)
	}
	return changes
}

func (s *Store) applied(event streams.Event, changes []streams.Change) []streams.Change {
	key := keyOf(event.Key.NamespacedName)
	s.see(event.ResourceVersion)
	held, found := s.working.objects.Get(key)
	switch {
	case !found && s.buried(key, event):
		s.note(ApplyAfterDelete, event)
		return append(changes, change(streams.Touched, event, nil, nil))
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

// buried says whether an event of a key that is not held is older than its deletion. An
// object that left a selector was told as deleted and may come back, with its uid.
func (s *Store) buried(key string, event streams.Event) bool {
	grave, known := s.tombstones.Get(key)
	if known && grave.uid == event.Object.GetUID() {
		return !streams.Older(grave.resourceVersion, event.ResourceVersion)
	}
	return known && streams.Older(event.ResourceVersion, grave.resourceVersion)
}

func (s *Store) deleted(event streams.Event, changes []streams.Change) []streams.Change {
	key := keyOf(event.Key.NamespacedName)
	s.see(event.ResourceVersion)
	held, found := s.working.objects.Get(key)
	if found && streams.Older(event.ResourceVersion, held.GetResourceVersion()) {
		s.note(Older, event)
		return append(changes, change(streams.Touched, event, held, held))
	}
	if grave, known := s.tombstones.Peek(key); !known || !streams.Older(event.ResourceVersion, grave.resourceVersion) {
		s.tombstones.Add(key, tombstone{event.Object.GetUID(), event.ResourceVersion})
	}
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
	if s.working.listed && streams.Older(event.ResourceVersion, s.seen) {
		s.note(OldList, event)
		return changes
	}
	s.working.objects.Scan(func(key string, held streams.Object) bool {
		listed, still := list.objects.Get(key)
		if !still { // It was deleted at some version up to that of the list.
			s.tombstones.Add(key, tombstone{held.GetUID(), event.ResourceVersion})
		}
		if !still || listed.GetUID() != held.GetUID() {
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
	s.see(event.ResourceVersion)
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

// see notes the newest version of which something is in. Something older of another key
// may still be on its way, so the view's version is that of lists and bookmarks alone.
func (s *Store) see(version string) {
	if !reached(s.seen, version) {
		s.seen = version
	}
}

// publish makes what was applied visible to readers.
func (s *Store) publish() { s.published.Store(s.working.copy()) }
