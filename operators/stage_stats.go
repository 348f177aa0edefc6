package operators

import "sync/atomic"

// StageStats counts what passes an operator, for metrics, and to find out when nothing is left to
// do. All observations of an operator add to the same counts. It may be read from any goroutine.
//
// At each hand-over the receiver counts before the sender stops counting:
//
//   - An item is Running or Waiting before it counts as In.
//   - An item that starts is Running before it is no longer Waiting. An item that goes back is
//     Waiting before it is no longer Running.
//   - An item that is sent counts as Out before it is no longer Waiting or Running.
//
// An item between two operators is Out of the first and not yet In to the second. A reader goes
// through a pipeline in its order, and reads In and then Busy at each operator. Such a reader never
// finds everything empty while an item is inside.
type StageStats struct {
	In      atomic.Int64 // items received
	Out     atomic.Int64 // items sent
	Waiting atomic.Int64 // items held now
	Running atomic.Int64 // items worked on now
	Held    atomic.Int64 // items of Waiting that wait for a gate, such as [Controllers.Open]
}

// Busy reports whether the operator holds or works on anything.
func (f *StageStats) Busy() bool {
	for {
		out := f.Out.Load()
		// Read Waiting twice: an item may go from Running to Waiting in between.
		if f.Waiting.Load() > 0 || f.Running.Load() > 0 || f.Waiting.Load() > 0 {
			return true
		}
		if f.Out.Load() == out { // Otherwise an item may have moved back and forth.
			return false
		}
	}
}
