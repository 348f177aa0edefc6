package operators

import "sync/atomic"

// StageStats counts what passes an operator, for metrics and for knowing when nothing is
// left to do. An operator that is observed more than once adds up. Read it from any
// goroutine.
//
// At each hand-over the receiver counts before the sender stops counting. An item is Running
// or Waiting before it counts as In; one that starts is Running before it is no longer
// Waiting, and the other way round; one that is sent counts as Out before it is no longer
// Waiting or Running. Between two operators is what is Out of the first and not yet In to the
// second. So a reader that goes through a pipeline in its order, and at each operator reads In
// and then Busy, does not find everything empty while an item is inside.
type StageStats struct {
	In      atomic.Int64 // items received
	Out     atomic.Int64 // items sent
	Waiting atomic.Int64 // items held now
	Running atomic.Int64 // items worked on now
}

// Busy reports whether the operator holds or works on anything.
func (f *StageStats) Busy() bool {
	for {
		out := f.Out.Load()
		// Waiting twice: an item may go from Running to Waiting in between.
		if f.Waiting.Load() > 0 || f.Running.Load() > 0 || f.Waiting.Load() > 0 {
			return true
		}
		if f.Out.Load() == out { // Else an item may have gone to and fro.
			return false
		}
	}
}
