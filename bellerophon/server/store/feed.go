package store

import (
	"context"
	"errors"
	"strings"
	"time"
)

// ErrExpired is the error of a watch whose revision is older than the events that the store keeps. The
// client has to list, and to watch from the revision of the list.
var ErrExpired = errors.New("the revision has expired; list the keys, and watch from the revision of the list")

// Event is one change of a key. A deletion has no value.
type Event struct {
	Kind  Kind
	Entry Entry
}

// Bounds of the events that a store keeps for watches.
const (
	keptEvents = 10_000
	keptBytes  = 16 << 20
)

// feed holds the newest events in the order of their revisions, which have no gaps. Watches read from it at
// their own pace, so a slow watch delays nothing and holds no memory.
type feed struct {
	events []Event // the newest is last
	bytes  int64
	before uint64        // the revision before the first event
	added  chan struct{} // closed at the next event
}

func newFeed(revision uint64) *feed { return &feed{before: revision, added: make(chan struct{})} }

func (f *feed) add(e Event) {
	f.events, f.bytes = append(f.events, e), f.bytes+e.Entry.size()
	drop := 0
	for len(f.events)-drop > keptEvents || f.bytes > keptBytes && len(f.events)-drop > 1 {
		f.bytes -= f.events[drop].Entry.size()
		f.events[drop] = Event{} // The array behind the slice would keep the value.
		drop++
	}
	f.events, f.before = f.events[drop:], f.before+uint64(drop)
	close(f.added)
	f.added = make(chan struct{})
}

// Following is what a watch follows.
type Following struct {
	Prefix  string        // of the keys
	After   uint64        // the revision after which the events begin
	Silence time.Duration // how long a watch without events waits before it says so; 0 means for ever
}

// Watch calls seen for each event, in the order of revisions, until ctx ends or a function fails. It returns that
// cause, or [ErrExpired]. Each event is seen once. A revision of the future expires too, as it is of another
// history. Watch calls idle when there are no more events at the moment, and again in each silence: after f.Silence without an event that was seen.
func (s *Store) Watch(ctx context.Context, f Following, seen func(Event) error, idle func(silent bool) error) error {
	after, silent := f.After, false
	var fires <-chan time.Time
	quiet := func() {}
	if f.Silence > 0 {
		timer := time.NewTimer(f.Silence)
		defer timer.Stop()
		fires, quiet = timer.C, func() { timer.Reset(f.Silence) }
	}
	for {
		events, added, err := s.since(after)
		if err != nil {
			return err
		}
		for _, event := range events {
			if strings.HasPrefix(event.Entry.Key, f.Prefix) {
				if err := seen(event); err != nil {
					return err
				}
				quiet()
			}
			after = event.Entry.Revision
		}
		if err := idle(silent); err != nil {
			return err
		}
		select {
		case <-added:
			silent = false
		case <-fires:
			silent = true
			quiet()
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Reach waits until the store has reached a revision, or ctx ends.
func (s *Store) Reach(ctx context.Context, revision uint64) error {
	for {
		s.mu.RLock()
		reached, added := s.revision >= revision, s.feed.added
		s.mu.RUnlock()
		if reached {
			return nil
		}
		select {
		case <-added:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// batch is how many events a watch copies at a time.
const batch = 256

// since returns the next events after a revision, and a channel that is closed when there are more.
func (s *Store) since(after uint64) ([]Event, <-chan struct{}, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if after < s.feed.before || after > s.revision {
		return nil, nil, ErrExpired
	}
	events := s.feed.events[after-s.feed.before:]
	if len(events) > batch {
		return append([]Event(nil), events[:batch]...), ready, nil
	}
	return append([]Event(nil), events...), s.feed.added, nil
}

// ready is closed.
var ready = func() chan struct{} { c := make(chan struct{}); close(c); return c }()
