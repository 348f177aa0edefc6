package cache

import "github.com/bellerophon-io/bellerophon/streams"

// relist is a list that is coming in.
type relist struct {
	required string // what the server said is current when the list was asked for; empty if the list is current
	objects  []streams.Object
}

// listing is the list that objects of a namespace belong to, or nil.
func (s *Store) listing(namespace string) *relist {
	if list := s.relists[namespace]; list != nil {
		return list
	}
	return s.relists[""]
}

// swap replaces all that a source told of by its list, which has ended. What is newer than
// the list stays. A list of which everything is in already is dropped.
func (s *Store) swap(event *streams.Event, to *batch) {
	covered := event.Key.Namespace
	list := s.relists[covered]
	delete(s.relists, covered)
	if list == nil {
		return
	}
	scope := s.scope(covered)
	version := event.ResourceVersion
	if scope.listed && streams.Older(version, scope.seen) {
		s.note(OldList, event)
		if streams.Older(version, scope.version) {
			return
		}
	}
	before, next, table := s.working, newView(s.working.indexers), newTable()
	if covered != "" {
		before.scan("", func(other *slot) {
			if other.name().Namespace != covered {
				table.set(next.put(nil, other.get()))
			}
		})
	}
	for _, object := range list.objects {
		name := nameOf(object)
		if s.buried(name, object) {
			continue
		}
		s.sizes.sample(object)
		s.mutations.came(streams.KeyOf(s.kind, object), object)
		table.set(next.put(table.find(name), object))
	}
	before.scan(covered, func(held *slot) {
		object, listed := held.get(), table.find(held.name())
		if streams.Older(version, object.GetResourceVersion()) {
			table.set(next.put(listed, object))
			return
		}
		s.mutations.went(object)
		if listed == nil { // It was deleted at some version up to that of the list.
			s.tombstones.Add(held.name(), tombstone{object.GetUID(), version})
		}
		if listed == nil || listed.get().GetUID() != object.GetUID() {
			to.add(streams.Removed, part(event, object), object, nil)
		}
	})
	next.scan(covered, func(listed *slot) {
		object := listed.get()
		var held streams.Object
		if known := s.find(listed.name()); known != nil {
			held = known.get()
		}
		switch {
		case held == nil || held.GetUID() != object.GetUID():
			to.add(streams.Added, part(event, object), nil, object)
		case held.GetResourceVersion() != object.GetResourceVersion():
			to.add(streams.Updated, part(event, object), held, object)
		}
	})
	next.scopes = before.scopes
	s.working, s.table = next, table
	clear(s.fresh)
	scope.listed, scope.lost = true, false
	scope.version, scope.required = version, list.required
	scope.see(version)
	s.moved, s.marked = true, event
}

// part is the part of a list that tells of one object.
func part(list *streams.Event, object streams.Object) *streams.Event {
	return &streams.Event{
		Type:            streams.Listed,
		Source:          list.Source,
		Key:             streams.KeyOf(list.Key.GroupKind, object),
		ResourceVersion: object.GetResourceVersion(),
		Received:        list.Received,
		Folded:          list.Folded,
	}
}
