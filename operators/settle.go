package operators

import (
	"context"
	"fmt"
	"time"

	"github.com/bellerophon-io/bellerophon/streams"
	"github.com/reactivex/rxgo/v2"
)

// SettleOptions configures [Settle].
type SettleOptions struct {
	// Quiet returns the quiet period: how long the input must be silent before it has settled. It is
	// called for each item and at the end of each period, so that the period can follow a
	// measurement. Required; a result below 1 ms counts as 1 ms.
	Quiet func() time.Duration

	// Busy reports whether anything is still pending, queued or in flight. While it does, the input
	// has not settled, however long it has been silent. Optional. It must be fast, and safe to call
	// from any goroutine.
	Busy func() bool

	// Last returns when something last happened. It is for activity that is too frequent for an item
	// each time: with Last, the input needs an item only for what happens after true was emitted.
	// Optional. It must be fast.
	Last func() time.Time
}

// look is how often Settle calls Last at least, until it emits true. The quiet period may shrink
// between two items.
const look = 100 * time.Millisecond

// Settle emits false at the start. It emits true once no item has come for the quiet period and Busy
// reports false, and false again when the next item comes. Errors count as items, and are dropped.
//
// With q as the quiet period:
//
//	x x . x . . (q) . . x . (q)  =>  false . . . . true . . false . true
//
// It panics if Quiet is not set.
func Settle[T any](in streams.Stream[T], options SettleOptions) streams.Stream[bool] {
	if options.Quiet == nil {
		panic(fmt.Errorf("settle: Quiet is not set; give the quiet period"))
	}
	quiet := func() time.Duration { return max(options.Quiet(), time.Millisecond) }
	next := func(left time.Duration) time.Duration {
		if options.Last != nil {
			return min(left, look)
		}
		return left
	}
	return streams.Lift(in, func(ctx context.Context, in <-chan rxgo.Item, out streams.Sink[bool]) {
		settled := false
		if !out.Send([]bool{false}) {
			return
		}
		last := time.Now()
		timer := time.NewTimer(next(quiet()))
		defer timer.Stop()
		for {
			was := settled
			select {
			case <-ctx.Done():
				return
			case _, open := <-in:
				if !open {
					return
				}
				settled = false
				last = time.Now()
				timer.Reset(next(quiet()))
			case <-timer.C:
				if options.Last != nil {
					if at := options.Last(); at.After(last) {
						last = at
					}
				}
				// The quiet period may have grown since the timer was set.
				left := quiet() - time.Since(last)
				if left <= 0 && options.Busy != nil && options.Busy() {
					left = quiet()
				}
				if settled = left <= 0; !settled {
					timer.Reset(next(left))
				}
			}
			if settled != was && !out.Send([]bool{settled}) {
				return
			}
		}
	})
}
