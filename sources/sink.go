package sources

import (
	"context"
	"fmt"

	"github.com/bellerophon-io/bellerophon/streams"
	"k8s.io/client-go/tools/cache"
)

// sink is the store of a reflector. It turns each call into events and stores nothing. The
// reflector calls it from one goroutine.
type sink struct {
	watcher *watcher
	ctx     context.Context // The reflector's interface does not pass it.
}

var (
	_ cache.ReflectorStore         = (*sink)(nil)
	_ cache.ReflectorBookmarkStore = (*sink)(nil)
	_ cache.TransformingStore      = (*sink)(nil)
)

func (s *sink) Add(object any) error    { return s.put(streams.Applied, object) }
func (s *sink) Update(object any) error { return s.put(streams.Applied, object) }
func (s *sink) Delete(object any) error { return s.put(streams.Deleted, object) }
func (s *sink) Resync() error           { return nil } // Never requested: it would emit nothing new.

// Transformer returns the function that the reflector applies to each object of a streamed list.
func (s *sink) Transformer() cache.TransformFunc {
	return func(object any) (any, error) {
		s.watcher.fresh.alive()
		s.arrived(object)
		return s.kept(object)
	}
}

// arrived reports an object as the API server sent it. The objects of Replace were reported before: page by page, or by
// the Transformer.
func (s *sink) arrived(object any) {
	if given, is := object.(streams.Object); is && s.watcher.options.OnObject != nil {
		s.watcher.options.OnObject(given, s.watcher.kind.bodies.take(given))
	}
}

func (s *sink) kept(object any) (streams.Object, error) {
	given, ok := object.(streams.Object)
	if !ok {
		return nil, fmt.Errorf("%s: a %T is not a Kubernetes object", s.watcher.name, object)
	}
	return asWatched(&s.watcher.kind, &s.watcher.options, given)
}

func (s *sink) Bookmark(resourceVersion string) error {
	event := s.event(streams.Bookmark)
	event.ResourceVersion = resourceVersion
	if !s.watcher.fresh.bookmarked(resourceVersion, event.Received) {
		s.watcher.status.set(s.watcher, Listing)
		s.watcher.fresh.stop() // The list that follows has the server's state.
		return nil
	}
	s.watcher.queue.Put(s.ctx, event)
	return nil
}

// Replace emits a complete list.
func (s *sink) Replace(objects []any, resourceVersion string) error {
	selection := s.watcher.options.Selecting.current()
	events := make([]streams.Event, 0, len(objects)+3)
	start := s.event(streams.ListStart)
	start.ResourceVersion, start.Received = s.watcher.head, s.watcher.askedAt
	events = append(events, start)
	for _, object := range objects {
		event, err := s.of(streams.Listed, object)
		if err != nil {
			return err
		}
		if selection.Has(event.Object) {
			events = append(events, event)
		}
	}
	end := s.event(streams.ListEnd)
	end.ResourceVersion = resourceVersion
	w := s.watcher
	w.asked = false
	w.emitting.Lock()
	defer w.emitting.Unlock()
	if w.options.Selecting.number() != w.listed { // The list lacks a part of what is selected now.
		w.fresh.again()
		return nil
	}
	events[0].Reset = w.fresh.replaced(resourceVersion, w.head, w.known, w.askedAt)
	w.status.Lists.Add(1)
	w.status.refuse(w, false)
	if events = append(events, end); w.options.Selecting != nil {
		events = append(events, w.selected(w.listed))
		w.selecting.read, w.selecting.lists = w.listed, w.selecting.lists+1
		w.selecting.poke()
	}
	w.queue.Put(s.ctx, events...)
	w.status.set(w, Watching) // After Put: a list in flight still counts as held.
	return nil
}

func (s *sink) put(kind streams.EventType, object any) error {
	s.arrived(object)
	event, err := s.of(kind, object)
	if err != nil {
		return err
	}
	w := s.watcher
	w.queue.Put(s.ctx, event)
	// After Put: no bookmark of this version may overtake the event.
	if w.fresh.saw(event.ResourceVersion, event.Received, w.options.patience()) {
		w.queue.Put(s.ctx, w.bookmark(event.ResourceVersion, event.Received))
	}
	return nil
}

// of returns an event with an object.
func (s *sink) of(kind streams.EventType, object any) (streams.Event, error) {
	kept, err := s.kept(object)
	if err != nil {
		return streams.Event{}, err
	}
	s.watcher.kind.at.sees(kept)
	event := s.event(kind)
	event.Key = streams.KeyOf(event.Key.GroupKind, kept)
	event.Object = kept
	event.ResourceVersion = kept.GetResourceVersion()
	return event, nil
}

// event returns an event or a bookmark, and records that it came from the server.
func (s *sink) event(kind streams.EventType) streams.Event {
	event := s.watcher.event(kind)
	s.watcher.status.came(event.Received, kind != streams.Bookmark)
	return event
}
