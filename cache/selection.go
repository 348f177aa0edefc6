package cache

import (
	"slices"
	"strconv"

	"github.com/bellerophon-io/bellerophon/streams"
	"k8s.io/apimachinery/pkg/types"
)

// Select restricts the kind to a selection: objects outside of it leave the store, and no longer enter it.
// That an object leaves is no change, and no deletion. An object that leaves because it was changed is removed. While the selection has grown and its source has not
// emitted all of it, the level of the kind is [Listed] at best. A nil selection is no restriction. Select may
// be called at any time, from any goroutine. Own writes of objects outside of it leave at once, because the
// source will not report them; the objects leave with the next event of the kind.
func (s *Store) Select(selection *streams.Selection) {
	s.selection.Store(selection)
	s.dropUnselectedWrites(selection)
	s.changed()
}

// dropUnselectedWrites drops the own writes of objects that a selection leaves out.
func (s *Store) dropUnselectedWrites(selection *streams.Selection) {
	o := &s.overlay
	o.mu.Lock()
	defer o.mu.Unlock()
	dropped := false
	for name, pending := range o.pending {
		own := pending.slot.get()
		if selection.Has(own) {
			continue
		}
		delete(o.pending, name)
		o.working.remove(pending.slot)
		s.mutations.untrack(own)
		dropped = true
	}
	if dropped {
		o.publish()
	}
}

// Selects reports whether an object belongs to the selection of the kind.
func (s *Store) Selects(object streams.Object) bool { return s.selection.Load().Has(object) }

// selected takes in that a source has emitted all of a selection.
func (s *Store) selected(event *streams.Event) {
	number, err := strconv.ParseInt(event.ResourceVersion, 10, 64)
	if scope := s.scope(event.Key.Namespace); err == nil && number > scope.selected {
		scope.selected = number
		s.moved = true
	}
}

// dropUnselected drops the objects that the current selection leaves out.
func (s *Store) dropUnselected(to *batch) {
	s.applied = s.selection.Load()
	type unselected struct {
		slot *slot
		name types.NamespacedName
	}
	var dropped []unselected
	s.working.scan("", func(held *slot) {
		if !s.applied.Has(held.get()) {
			dropped = append(dropped, unselected{held, held.name()})
		}
	})
	for _, each := range dropped {
		s.drop(each.slot, each.name, to)
	}
	for _, list := range s.relists {
		list.objects = slices.DeleteFunc(list.objects, func(object streams.Object) bool { return !s.applied.Has(object) })
	}
}

// leave takes in an event of an object that the selection leaves out. If the object is held, the event has changed what
// selects it, or has deleted it since: an object gets another owner, for example. Then it is removed, for its former owner
// may have to act. The selection may get it back at the version of the event.
func (s *Store) leave(event *streams.Event, to *batch) {
	slot := s.find(event.Key.NamespacedName)
	switch {
	case slot == nil:
	case event.Type == streams.Deleted:
		s.deleted(event, to)
	case !streams.IsOlderVersion(event.ResourceVersion, slot.get().GetResourceVersion()):
		last := slot.get()
		s.tombstones.Add(event.Key.NamespacedName, tombstone{last.GetUID(), last.GetResourceVersion(), event.Received})
		s.drop(slot, event.Key.NamespacedName, to)
		to.add(streams.Removed, event, last, nil)
	}
}

// isUnread reports whether an object belongs to a part of the selection that the source has not emitted
// completely. That a list lacks the object then proves nothing: the list may be older than the selection.
func (s *Store) isUnread(object streams.Object, in *scope) bool {
	if s.applied == nil {
		return false
	}
	since, _ := s.applied.Keeps(object)
	return since > in.selected
}
