package streams

import (
	"context"

	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
)

// MergeWith is a stream with another beside it, as in [Merge], but that it ends with the first:
// then the other is cancelled and waited for.
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
		first.produce(ctx, out) // It turns panics into errors.
		group.Stop()
		_ = group.Wait()
	})
}
