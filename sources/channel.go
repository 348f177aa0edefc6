package sources

import (
	"context"

	"github.com/bellerophon-io/bellerophon/streams"
)

// channelBatch bounds the values that Channel joins while the receiver is busy.
const channelBatch = 256

// Channel is the values of a Go channel, until it is closed. Values that come while the
// receiver is busy leave as one batch of up to 256; beyond that, whoever sends on the
// channel waits. The channel belongs to the caller: observations share its values, so
// that one value goes to one of them, and what an observation has taken and not
// delivered when its context ends is gone.
func Channel[T any](ch <-chan T) streams.Stream[T] {
	return streams.Batch(streams.Create(func(ctx context.Context, out streams.Sink[T]) {
		for {
			select {
			case <-ctx.Done():
				return
			case value, open := <-ch:
				if !open || !out.Send([]T{value}) {
					return
				}
			}
		}
	}), channelBatch)
}
