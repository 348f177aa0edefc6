package streams

import (
	"context"

	"github.com/reactivex/rxgo/v2"
)

// Batch joins batches into larger ones, of at most max values, while the receiver is
// busy. It delays nothing: when the receiver is ready, what is there goes. Errors keep
// their place. It panics unless max is at least 1.
//
//	[a] [b] [c], receiver busy during b and c  =>  [a] [b c]
func Batch[T any](in Stream[T], max int) Stream[T] {
	if max < 1 {
		panic("streams.Batch: max must be at least 1")
	}
	return Lift(in, func(ctx context.Context, in <-chan rxgo.Item, out Sink[T]) {
		var batch []T
		for {
			var send chan<- rxgo.Item
			receive := in
			if len(batch) > 0 {
				send = out.Channel()
			}
			if len(batch) >= max {
				receive = nil
			}
			select {
			case <-ctx.Done():
				return
			case send <- rxgo.Item{V: batch}:
				batch = nil
			case item, open := <-receive:
				if !open {
					if len(batch) > 0 {
						out.Send(batch)
					}
					return
				}
				values, err := Values[T](item)
				if err != nil {
					if len(batch) > 0 && !out.Send(batch) {
						return
					}
					batch = nil
					if !out.Error(err) {
						return
					}
				}
				batch = append(batch, values...)
			}
		}
	})
}
