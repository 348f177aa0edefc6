package streams

import (
	"context"

	"github.com/reactivex/rxgo/v2"
)

// Lift makes an operator of a plain function from an input channel to a sink. All
// operators of Bellerophon have this one shape.
//
// The function is called once per observation, so that state in its variables belongs
// to that observation. It reads batches and errors (see [Values]) and returns when the
// input is closed, when ctx ends or when sending fails. Errors that it does not handle
// it forwards. When it returns, its input is cancelled and waited for.
func Lift[T, U any](in Stream[T], run func(ctx context.Context, in <-chan rxgo.Item, out Sink[U])) Stream[U] {
	return Create(func(ctx context.Context, out Sink[U]) {
		ctx, cancel := context.WithCancel(ctx)
		items := in.Observe(ctx)
		defer drain(items)
		defer cancel()
		run(ctx, items, out)
	})
}

// MapBatches makes a stateless operator of a function over batches; it forwards errors.
// The function may reuse the batch it gets. An empty result is not sent.
//
//	[a b] [c]  =>  [f(a) f(b)] [f(c)]
func MapBatches[T, U any](in Stream[T], apply func(batch []T) []U) Stream[U] {
	return Lift(in, func(_ context.Context, in <-chan rxgo.Item, out Sink[U]) {
		for item := range in {
			batch, err := Values[T](item)
			sent := true
			if err != nil {
				sent = out.Error(err)
			} else if mapped := apply(batch); len(mapped) > 0 {
				sent = out.Send(mapped)
			}
			if !sent {
				return
			}
		}
	})
}
