package streams

import (
	"context"

	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
)

// Merge merges several streams into one. The order within each input is kept; batches of different
// inputs interleave. An error of one input ends neither that input nor the others. The stream ends
// when all inputs have ended.
//
//	[a1] [a2]  and  [b1] [b2]  =>  [a1] [b1] [b2] [a2]
func Merge[T any](inputs ...Stream[T]) Stream[T] {
	return Create(func(ctx context.Context, out Sink[T]) {
		group := lifecycle.New(ctx)
		for _, input := range inputs {
			// The input sends directly to the sink of the merge, which saves a hop.
			group.Go("merge", func(ctx context.Context) error {
				input.produce(ctx, out)
				return nil
			})
		}
		_ = group.Wait() // Always nil: produce turns panics into errors.
	})
}
