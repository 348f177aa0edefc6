package operators

import (
	"context"

	"github.com/bellerophon-io/bellerophon/streams"
	"github.com/reactivex/rxgo/v2"
)

// Counted counts the items of a stage that uses only [streams.MapOnReceive]. The result has a
// goroutine of its own, so the counts are exact: Running is 1 from before an item is unpacked until
// its values are sent or dropped. A stage with goroutines of its own must update the counts itself.
//
//	[a b] [c]  =>  [f(a) f(b)] [f(c)]
func Counted[T any](in streams.Stream[T], stage func(streams.Stream[T]) streams.Stream[T], stats *StageStats) streams.Stream[T] {
	entering := streams.MapOnReceive(in, func(batch []T) ([]T, error) {
		stats.In.Add(int64(len(batch)))
		return batch, nil
	})
	return streams.Lift(stage(entering), func(_ context.Context, in <-chan rxgo.Item, out streams.Sink[T]) {
		for item := range in {
			if !forward(item, out, stats) {
				return
			}
		}
	})
}

// forward takes an item apart and sends its values. It returns false when the observation has ended.
func forward[T any](item rxgo.Item, out streams.Sink[T], stats *StageStats) bool {
	stats.Running.Add(1)
	defer stats.Running.Add(-1)
	batch, err := streams.Values[T](item)
	if sent := int64(len(batch)); sent > 0 {
		if !out.Send(batch) {
			return false
		}
		stats.Out.Add(sent)
	}
	return err == nil || out.Error(err)
}
