package streams

import (
	"context"

	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
)

// MergeWith merges two streams as [Merge] does, but ends with the first one. It then cancels the
// other and waits for it.
//
//	[a1] [a2] (end)  and  [b1] [b2] ...  =>  [a1] [b1] [a2] (end)
func MergeWith[T any](first, other Stream[T]) Stream[T] {
	return Create(func(ctx context.Context, out Sink[T]) {
		group := lifecycle.New(ctx)
		group.Go("beside", func(ctx context.Context) error {
			beside := out
			beside.done = ctx.Done()
			other.produce(ctx, beside)
			return nil
		})
		first.produce(ctx, out)
		group.Stop()
		_ = group.Wait() // Always nil: produce turns panics into errors.
	})
}
