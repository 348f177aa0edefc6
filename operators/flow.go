package operators

import "sync/atomic"

// Flow counts what passes an operator, for metrics and for knowing when nothing is
// left to do. An operator that is observed more than once adds up. Read it from any
// goroutine.
type Flow struct {
	In      atomic.Int64 // items received
	Out     atomic.Int64 // items sent
	Waiting atomic.Int64 // items held now
	Running atomic.Int64 // items worked on now
}

// Busy says whether the operator holds or works on anything.
func (f *Flow) Busy() bool { return f.Waiting.Load() > 0 || f.Running.Load() > 0 }
