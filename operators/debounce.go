package operators

import (
	"context"
	"fmt"
	"time"

	"github.com/bellerophon-io/bellerophon/streams"
	"github.com/reactivex/rxgo/v2"
)

// DefaultWindow is short against the time in which a workload gets ready, of which the last
// change is the one that matters: its changes come 5 to 20 ms apart. What comes faster is
// folded.
const DefaultWindow = 10 * time.Millisecond

// DefaultBurst is how many states of a workload come within a window while it gets ready.
const DefaultBurst = 3

// MaxBurst bounds the burst: beyond it, little would be folded.
const MaxBurst = 16

// MaxWindow bounds the window: beyond it, the cache would be stale by design.
const MaxWindow = time.Minute

// DebounceOptions set up [Debounce]. The zero value does not wait.
type DebounceOptions struct {
	// Window is how long an event of a busy key waits for a newer one, 0 to MaxWindow.
	// 0 turns waiting off; events are then folded only while the receiver is busy.
	Window time.Duration

	// Burst is how many states of a key pass at once in a window that begins when the key was
	// quiet, 1 to MaxBurst. The default is 1.
	Burst int

	// Stats, if set, counts events; Waiting are those held back, and Running is 1 while a
	// batch is taken in.
	Stats *StageStats
}

// Validate says which option is out of its range.
func (o DebounceOptions) Validate() error {
	if o.Window < 0 || o.Window > MaxWindow {
		return fmt.Errorf("debounce: Window is %v; allowed is 0 to %v", o.Window, MaxWindow)
	}
	if o.Burst < 0 || o.Burst > MaxBurst {
		return fmt.Errorf("debounce: Burst is %d; allowed is 1 to %d", o.Burst, MaxBurst)
	}
	return nil
}

// Debounce holds back the events of busy keys, so that of a burst only the latest state
// of each key goes on. It never refuses an event: while the receiver is busy it folds,
// and holds no more than one state for each object and source, however long that takes.
//
//   - Leading edge: the event of a key of which nothing passed for a window passes at once.
//   - So do others that follow it within the window, until Burst of them have. What comes for the
//     key then waits for the end of the window; then the latest state passes, and a new window
//     begins, in which all else waits. A window is thus the longest wait, and a busy key sends
//     one state in each (throttleLatest is the name of this, with a burst of 1, in other
//     libraries of ReactiveX). It may be up to 1/16 shorter, so that busy keys go together.
//   - A deletion is never folded away, nor is the creation of another object under the
//     same name (another uid). An event keeps what it replaced as causes.
//   - Lists, bookmarks, and what a source says of its connection pass at once, behind all
//     that the source said before; a new list replaces that, except deletions.
//   - The order of what a source says of one key is kept. At the end of the input all that waits passes.
//
// For one key, with window w, and a burst of 1:
//
//	a1 . a2 a3 . (w) . . . . (w) a4  =>  a1 . . . . a3 . . . . . a4      (a3 has the cause a2)
//
// It panics on options that do not validate.
func Debounce(in streams.Stream[streams.Event], options DebounceOptions) streams.Stream[streams.Event] {
	if err := options.Validate(); err != nil {
		panic(err)
	}
	flow := options.Stats
	if flow == nil {
		flow = &StageStats{}
	}
	return streams.Lift(in, func(ctx context.Context, in <-chan rxgo.Item, out streams.Sink[streams.Event]) {
		held := newConflation(options.Window, max(1, options.Burst))
		timer := time.NewTimer(time.Hour)
		defer timer.Stop()
		var next rxgo.Item // What goes out next: nothing is folded into it any more.
		var ready, waiting int
		var armed time.Time // what timer is set to
		taking := int64(0)  // 1 while an item is taken in
		defer func() {
			flow.Waiting.Add(-int64(waiting))
			flow.Running.Add(-taking) // It is 1 if what came before has panicked.
		}()
		for in != nil || ready > 0 {
			var send chan<- rxgo.Item
			if ready > 0 {
				send = out.Channel()
			}
			select {
			case <-ctx.Done():
				return
			case send <- next:
				if next.E == nil {
					flow.Out.Add(int64(ready))
				}
				next, ready = rxgo.Item{}, 0
			case <-timer.C:
				armed = time.Time{}
				held.tick(time.Now())
			case item, open := <-in:
				if !open {
					in = nil
					held.flush()
					break
				}
				taking = 1
				flow.Running.Add(taking)
				if batch := receive(held, flow, item, ready == 0); len(batch) > 0 {
					next, ready = out.Item(batch), len(batch)
				}
			}
			if ready == 0 && held.size > 0 {
				size := held.size
				batch, err := held.take()
				if ready = size - held.size; ready > 0 {
					next = itemOf(out, batch, err)
				}
			}
			if now := held.size + ready; now != waiting {
				flow.Waiting.Add(int64(now - waiting))
				waiting = now
			}
			if taking > 0 { // Last: see Flow.
				flow.Running.Add(-taking)
				taking = 0
			}
			if due, waits := held.due(); waits && due != armed {
				timer.Reset(time.Until(due))
				armed = due
			}
		}
	})
}

// receive takes in an item. What may go out at once it returns, if the receiver is free
// for that.
func receive(held *conflation, flow *StageStats, item rxgo.Item, free bool) (pass []streams.Event) {
	batch, err := streams.Values[streams.Event](item)
	if len(batch) > 0 {
		flow.In.Add(int64(len(batch)))
		now := time.Now()
		held.cool(now)
		passed := false
		if free && held.ready.len() == 0 {
			pass, passed = held.pass(batch, now)
		}
		if !passed {
			for i := range batch {
				held.add(&batch[i], now)
			}
			streams.Recycle(batch)
		}
	}
	if err != nil {
		held.addError(err)
	}
	return pass
}
