package sources

import (
	"sync"
	"sync/atomic"
	"time"
)

// Status tells how a watch is doing. Read it from any goroutine.
type Status struct {
	Lists     atomic.Int64 // lists that were completed
	Watches   atomic.Int64 // watches that were opened
	Errors    atomic.Int64 // requests and watches that failed, but for those that had another take their place
	Probes    atomic.Int64 // questions which version is current, of watches that were silent for long
	Last      atomic.Int64 // when the last event or bookmark came, in Unix nanoseconds
	LastEvent atomic.Int64 // when the last event came, likewise
	State     atomic.Int32 // a WatchState; of several namespaces the worst

	lastAt, lastEventAt atomic.Int64 // as Last and LastEvent, by a clock that does not jump: since epoch

	// OnRefusal, if it is set before the watch begins, is called when the server begins to refuse
	// the first list of a namespace (it does not serve the kind, or forbids it), with true, and
	// when it refuses none any more. It must be fast, and must not call the status.
	OnRefusal func(refused bool)

	mu      sync.Mutex
	states  map[*watcher]WatchState
	refused map[*watcher]bool
}

// refuse notes whether the server refuses the first list of a namespace.
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

// Held returns how many events the watch has put on its stream that nobody has taken yet.
func (s *Status) Held() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	held := 0
	for each := range s.states {
		held += int(each.held.Load())
	}
	return held
}

// RecordWrite notes that the server has answered a write to a namespace, with a version. If what it
// says is current later is older than that, its versions went back. It may be called from any
// goroutine.
func (s *Status) RecordWrite(namespace, version string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for each := range s.states {
		if each.namespace == "" || each.namespace == namespace {
			each.fresh.wrote(version)
		}
	}
}

// Silence returns how long ago the last event or bookmark came, and Quiet the last event;
// false if there was none. A clock that is set does not matter.
func (s *Status) Silence() (since time.Duration, came bool) { return ago(s.lastAt.Load()) }

// Quiet is as [Status.Silence], with bookmarks left out.
func (s *Status) Quiet() (since time.Duration, came bool) { return ago(s.lastEventAt.Load()) }

// came notes that something came from the server, which may be an event.
func (s *Status) came(at time.Time, isEvent bool) {
	wall, steady := at.UnixNano(), int64(at.Sub(epoch))
	s.Last.Store(wall)
	s.lastAt.Store(steady)
	if isEvent {
		s.LastEvent.Store(wall)
		s.lastEventAt.Store(steady)
	}
}

func ago(at int64) (time.Duration, bool) {
	return time.Since(epoch) - time.Duration(at), at != 0
}

// epoch is any time, with the reading of a clock that does not jump.
var epoch = time.Now()

// WatchState is what a watch is doing.
type WatchState int32

// The states of a watch. Worst is BackingOff, then Listing.
const (
	Listing    WatchState = iota
	Watching              // what it told is current, but for what is on its way
	BackingOff            // it has lost the API server, or is refused: see streams.Disconnected
)

// String is the state's name in metrics.
func (s WatchState) String() string { return [...]string{"listing", "watching", "backing_off"}[s] }

// set notes what the watch of one namespace is doing.
func (s *Status) set(w *watcher, state WatchState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.states == nil {
		s.states = map[*watcher]WatchState{}
	}
	s.states[w] = state
	worst := Watching
	for _, each := range s.states {
		if each == BackingOff || each == Listing && worst == Watching {
			worst = each
		}
	}
	s.State.Store(int32(worst))
}

// forget is for the end of an observation: the state stays as it was.
func (s *Status) forget(w *watcher) {
	s.refuse(w, false)
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.states, w)
}
