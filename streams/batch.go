package streams

import (
	"context"
	"slices"

	"github.com/reactivex/rxgo/v2"
)

// Batch joins batches into larger ones while the receiver is busy, and splits batches with more
// than most values. It delays nothing: when the receiver is ready, it sends all that it holds.
// Errors keep their place. It panics unless most is at least 1.
//
//	[a] [b] [c], receiver busy during b and c  =>  [a] [b c]
func Batch[T any](in Stream[T], most int) Stream[T] {
	if most < 1 {
		panic("streams.Batch: most must be at least 1")
	}
	return Lift(in, func(ctx context.Context, in <-chan rxgo.Item, out Sink[T]) {
		var batch []T // Longer than most only if a batch of the input was.
		flush := func() bool {
			for chunk := range slices.Chunk(batch, most) {
				if !out.Send(chunk) {
					return false
				}
			}
			batch = nil
			return true
		}
		for {
			next := min(len(batch), most)
			var send chan<- rxgo.Item
			var item rxgo.Item
			receive := in
			if next > 0 {
				send, item = out.Channel(), out.Item(batch[:next:next])
			}
			if next == most {
				receive = nil
			}
			select {
			case <-ctx.Done():
				return
			case send <- item:
				batch = batch[next:]
			case received, open := <-receive:
				if !open {
					flush()
					return
				}
				values, err := Values[T](received)
				batch = append(batch, values...)
				if err != nil && (!flush() || !out.Error(err)) {
					return
				}
			}
		}
	})
}
