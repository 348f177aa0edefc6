package streams

import (
	"context"

	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
)

// ForEach observes a stream to its end and calls onBatch and onError, one at a time, in the
// caller's goroutine. It returns when the stream has ended, which happens soon after ctx ends. Items
// that still arrive until then are passed to the callbacks too. A panic of a callback ends the
// observation and is returned as an error.
func ForEach[T any](ctx context.Context, stream Stream[T], onBatch func([]T), onError func(error)) error {
	ctx, cancel := context.WithCancel(ctx)
	items := stream.Observe(ctx)
	defer drain(items)
	defer cancel()
	return lifecycle.Guard(func() error {
		for item := range items {
			batch, err := Values[T](item)
			if len(batch) > 0 {
				onBatch(batch)
			}
			if err != nil {
				onError(err)
			}
		}
		return nil
	})
}

// Collect observes a stream to its end and returns its values and errors.
func Collect[T any](ctx context.Context, stream Stream[T]) (values []T, errs []error) {
	err := ForEach(ctx, stream,
		func(batch []T) { values = append(values, batch...) },
		func(err error) { errs = append(errs, err) })
	if err != nil {
		errs = append(errs, err)
	}
	return values, errs
}
