package sources

import (
	"context"

	"github.com/bellerophon-io/bellerophon/streams"
)

// channelBatch bounds a batch that Channel collects while the receiver is busy.
const channelBatch = 256

// Channel emits the values of a Go channel, until the channel is closed. Values that come while the
// receiver is busy leave as one batch of up to 256. Beyond that, senders on the channel block.
//
// The channel belongs to the caller, and observations share its values: each value goes to one
// observation. Values that an observation has received, but not delivered when its context ends,
// are lost.
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
