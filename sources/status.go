package sources

import (
	"sync"
	"sync/atomic"
)

// Status tells how a watch is doing. Read it from any goroutine.
type Status struct {
	Lists     atomic.Int64 // lists that were completed
	Watches   atomic.Int64 // watches that were opened
	Errors    atomic.Int64 // requests that failed, but for those that had another take their place
	Last      atomic.Int64 // when the last event or bookmark came, in Unix nanoseconds
	LastEvent atomic.Int64 // when the last event came, likewise
	State     atomic.Int32 // a WatchState; of several namespaces the worst

	mu     sync.Mutex
	states map[*watcher]WatchState
}

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
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.states, w)
}
