package sources

import (
	"sync"
	"sync/atomic"
	"time"
)

// Status reports how a watch is doing. It may be read from any goroutine.
type Status struct {
	Lists   atomic.Int64 // lists completed
	Watches atomic.Int64 // watches opened
	Errors  atomic.Int64 // requests and watches that failed, except where a fallback took their place
	Probes  atomic.Int64 // requests for the current version, made because a watch was silent for long
	State   atomic.Int32 // a WatchState; the worst one of several namespaces

	// ServerSelects is true if the server itself leaves out what does not belong to the selection: see
	// WatchOptions.Selecting.
	ServerSelects atomic.Bool

	lastEvent, lastBookmark atomic.Int64 // when the last one came, since epoch, on the monotonic clock; 0 for never

	// OnRefusal, if set before the watch begins, is called with true when the server begins to
	// refuse the first list of a namespace: it does not serve the kind, or forbids the list. It is
	// called with false when no namespace is refused any more. OnRefusal must be fast, and must not
	// call the status.
	OnRefusal func(refused bool)

	// OnMissing, if set before the watch begins, is called when the server no longer knows the path of
	// a kind that it has listed before: the definition of the kind may be deleted. It may be called
	// again for each retry. OnMissing must be fast, and must not call the status.
	OnMissing func()

	mu      sync.Mutex
	states  map[*watcher]WatchState
	refused map[*watcher]bool
}

// refuse records whether the server refuses the first list of a namespace.
func (s *Status) refuse(w *watcher, refused bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := len(s.refused) > 0
	if refused {
		if s.refused == nil {
			s.refused = map[*watcher]bool{}
		}
		s.refused[w] = true
	} else {
		delete(s.refused, w)
	}
	if now := len(s.refused) > 0; now != before && s.OnRefusal != nil {
		s.OnRefusal(now)
	}
}

// Held returns how many events the watch has put on its stream that the reader has not taken yet.
func (s *Status) Held() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	held := 0
	for each := range s.states {
		held += int(each.held.Load())
	}
	return held
}

// RecordWrite records the version with which the server answered a write to a namespace. If the
// server later reports an older version as current, its versions went back. RecordWrite may be
// called from any goroutine.
func (s *Status) RecordWrite(namespace, version string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for each := range s.states {
		if each.namespace == "" || each.namespace == namespace {
			each.fresh.wrote(version)
		}
	}
}

// Silence returns how long ago the last event or bookmark came, or false if none has come. It uses
// the monotonic clock, so setting the system clock has no effect.
func (s *Status) Silence() (since time.Duration, came bool) {
	last, mark := s.lastEvent.Load(), s.lastBookmark.Load()
	if last == 0 || mark != 0 && mark > last { // In virtual time, both are before epoch.
		last = mark
	}
	return ago(last)
}

// Quiet returns how long ago the last event came, or false if none has come. Unlike
// [Status.Silence], it ignores bookmarks.
func (s *Status) Quiet() (since time.Duration, came bool) { return ago(s.lastEvent.Load()) }

// came records that an event or a bookmark came from the server.
func (s *Status) came(at time.Time, isEvent bool) {
	last := &s.lastBookmark
	if isEvent {
		last = &s.lastEvent
	}
	last.Store(int64(at.Sub(epoch)))
}

func ago(at int64) (time.Duration, bool) {
	return time.Since(epoch) - time.Duration(at), at != 0
}

// epoch is an arbitrary time with a reading of the monotonic clock.
var epoch = time.Now()

// WatchState is the current activity of a watch.
type WatchState int32

// The states of a watch, the worst being BackingOff, then Listing.
const (
	Listing    WatchState = iota
	Watching              // the emitted events are current, except for events in flight
	BackingOff            // the API server is lost, or refuses: see streams.Disconnected
)

// String returns the state's name in metrics.
func (s WatchState) String() string { return [...]string{"listing", "watching", "backing_off"}[s] }

// set records the state of the watch of one namespace.
func (s *Status) set(w *watcher, state WatchState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.states == nil {
		s.states = map[*watcher]WatchState{}
	}
	s.states[w] = state
	s.judge()
}

// judge sets State to the worst state. The caller holds the lock.
func (s *Status) judge() {
	worst := Watching
	for _, each := range s.states {
		if each == BackingOff || each == Listing && worst == Watching {
			worst = each
		}
	}
	s.State.Store(int32(worst))
}

// forget removes the watch of one namespace when its observation ends. The state of the last watch stays.
func (s *Status) forget(w *watcher) {
	s.refuse(w, false)
	s.mu.Lock()
	defer s.mu.Unlock()
	if delete(s.states, w); len(s.states) > 0 {
		s.judge()
	}
}
