package operators

import (
	"context"
	"fmt"
	"time"

	"github.com/bellerophon-io/bellerophon/streams"
	"github.com/reactivex/rxgo/v2"
)

// SettleOptions set up [Settle].
type SettleOptions struct {
	// Quiet is how long nothing may come before all is quiet. It is asked whenever
	// something comes and when the time is over, so that it can follow a measurement.
	// Required; a result below 1 ms counts as 1 ms.
	Quiet func() time.Duration

	// Busy says whether something is still pending, queued or in flight: then nothing is
	// quiet, however long nothing came. Optional. It must be fast, and safe to call from
	// any goroutine.
	Busy func() bool
}

// Settle tells when a stream has calmed down: true once nothing came for the time
// Quiet and nothing is Busy, false when something comes after that. Errors count as
// something that came, and go no further.
//
// With q the quiet time:
//
//	x x . x . . (q) . . x . (q)  =>  false . . . . true . . false . true
//
// It panics if Quiet is not set.
func Settle[T any](in streams.Stream[T], options SettleOptions) streams.Stream[bool] {
	if options.Quiet == nil {
		panic(fmt.Errorf("settle: Quiet is not set; give the time that counts as quiet"))
	}
	quiet := func() time.Duration { return max(options.Quiet(), time.Millisecond) }
	return streams.Lift(in, func(ctx context.Context, in <-chan rxgo.Item, out streams.Sink[bool]) {
		settled := false
		if !out.Send([]bool{false}) {
			return
		}
		last := time.Now()
		timer := time.NewTimer(quiet())
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
				timer.Reset(quiet())
			case <-timer.C:
				// Quiet may be longer by now than when the timer was set: see what is left.
				left := quiet() - time.Since(last)
				if left <= 0 && options.Busy != nil && options.Busy() {
					left = quiet()
				}
				if settled = left <= 0; !settled {
					timer.Reset(left)
				}
			}
			if settled != was && !out.Send([]bool{settled}) {
				return
			}
		}
	})
}
