package operators

import (
	"context"
	"fmt"
	"time"

	"github.com/bellerophon-io/bellerophon/streams"
	"github.com/reactivex/rxgo/v2"
)

// DefaultWindow is the debounce window of a manager. It is short compared with the time that a
// workload takes to get ready. The changes of such a workload come 5 to 20 ms apart. The window
// coalesces changes that come faster.
const DefaultWindow = 10 * time.Millisecond

// DefaultBurst is the burst of a manager: as many states of a workload that gets ready come within
// one window. It is not the default of [DebounceOptions].
const DefaultBurst = 3

// MaxBurst bounds the burst: with a larger one, few events would be coalesced.
const MaxBurst = 16

// MaxWindow bounds the window: with a longer one, the cache would be stale by design.
const MaxWindow = time.Minute

// DebounceOptions configures [Debounce]. The zero value does not wait.
type DebounceOptions struct {
	// Window is how long an event of a busy key waits for a newer one, 0 to MaxWindow. 0 turns
	// waiting off; events are then coalesced only while the receiver is busy.
	Window time.Duration

	// Burst is how many states of a key pass at once in a window that opens on a quiet key, 1 to
	// MaxBurst. The default is 1.
	Burst int

	// Stats, if set, counts events. Waiting counts the events that are held back, and Running is 1
	// while a batch is taken in.
	Stats *StageStats
}

// Validate returns an error for an option that is out of its range.
func (o DebounceOptions) Validate() error {
	if o.Window < 0 || o.Window > MaxWindow {
		return fmt.Errorf("debounce: Window is %v; allowed is 0 to %v", o.Window, MaxWindow)
	}
	if o.Burst < 0 || o.Burst > MaxBurst {
		return fmt.Errorf("debounce: Burst is %d; allowed is 1 to %d", o.Burst, MaxBurst)
	}
	return nil
}

// Debounce delays the events of busy keys, so that only the latest state of each key in a burst
// passes. It always receives. While the receiver is busy, it coalesces events, and holds at most
// one state for each object and source.
//
//   - Leading edge: an event passes at once if nothing of its key has passed for a window. It opens
//     a window for the key.
//   - Further events of the key pass at once within the window, until Burst states have passed.
//     Later events of the key wait for the end of the window.
//   - At the end of the window the latest state passes, if one waits. It opens a new window, in
//     which all further events of the key wait.
//   - No event waits longer than a window, and a busy key sends one state in each. Other ReactiveX
//     libraries call this throttleLatest, with a burst of 1. A window may be up to 1/16 shorter, so
//     that busy keys pass together.
//   - A deletion is never coalesced away. Neither is the creation of another object under the same
//     name (another uid). An event keeps the events that it replaced as causes.
//   - Lists, bookmarks, and events about a source's connection pass at once, behind all earlier
//     events of the source. A new list replaces those events, except deletions.
//   - The events of one source and key keep their order. At the end of the input, all events that
//     wait pass.
//
// For one key, with window w, and a burst of 1:
//
//	a1 . a2 a3 . (w) . . . . (w) a4  =>  a1 . . . . a3 . . . . . a4      (a3 has the cause a2)
//
// It panics if the options do not validate.
func Debounce(in streams.Stream[streams.Event], options DebounceOptions) streams.Stream[streams.Event] {
	if err := options.Validate(); err != nil {
		panic(err)
	}
	stats := options.Stats
	if stats == nil {
		stats = &StageStats{}
	}
	return streams.Lift(in, func(ctx context.Context, in <-chan rxgo.Item, out streams.Sink[streams.Event]) {
		held := newConflation(options.Window, max(1, options.Burst))
		timer := time.NewTimer(time.Hour)
		defer timer.Stop()
		var next rxgo.Item // the item to send next; nothing is coalesced into it any more
		var ready, waiting int
		var armed time.Time   // when timer fires; zero if it is not set
		receiving := int64(0) // 1 while an item is taken in
		defer func() {
			stats.Waiting.Add(-int64(waiting))
			stats.Running.Add(-receiving) // It is 1 here only after a panic.
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
					stats.Out.Add(int64(ready))
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
				receiving = 1
				stats.Running.Add(receiving)
				if batch := receive(held, stats, item, ready == 0); len(batch) > 0 {
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
				stats.Waiting.Add(int64(now - waiting))
				waiting = now
			}
			if receiving > 0 { // Last: see StageStats.
				stats.Running.Add(-receiving)
				receiving = 0
			}
			if due, waits := held.due(); waits && due != armed {
				timer.Reset(time.Until(due))
				armed = due
			}
		}
	})
}

// receive takes in an item. It returns the events that may pass at once, if the receiver is free to
// take them.
func receive(held *conflation, stats *StageStats, item rxgo.Item, free bool) (pass []streams.Event) {
	batch, err := streams.Values[streams.Event](item)
	if len(batch) > 0 {
		stats.In.Add(int64(len(batch)))
		now := time.Now()
		held.closeQuietWindows(now)
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
