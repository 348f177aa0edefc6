package streams_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/streams"
	"github.com/reactivex/rxgo/v2"
)

// consume reads a stream to its end and counts its values.
func consume(b *testing.B, stream streams.Stream[int]) {
	b.Helper()
	b.ReportAllocs()
	b.ResetTimer()
	values := 0
	err := streams.ForEach(b.Context(), stream, func(batch []int) { values += len(batch) }, func(err error) { b.Error(err) })
	if err != nil || values != b.N {
		b.Fatalf("got %d of %d values: %v", values, b.N, err)
	}
}

// BenchmarkSend sends values through a channel to a reader: with a select that also waits for the
// end of the context, and with a Sink, which first tries without that select.
func BenchmarkSend(b *testing.B) {
	batch := []int{1}
	b.Run("select", func(b *testing.B) {
		consume(b, streams.Create(func(ctx context.Context, out streams.Sink[int]) {
			channel := out.Channel()
			for range b.N {
				select {
				case channel <- rxgo.Item{V: batch}:
				case <-ctx.Done():
					return
				}
			}
		}))
	})
	b.Run("sink", func(b *testing.B) {
		consume(b, streams.Create(func(_ context.Context, out streams.Sink[int]) {
			for range b.N {
				if !out.Send(batch) {
					return
				}
			}
		}))
	})
}

// BenchmarkMerge sends values from four sources through Merge.
func BenchmarkMerge(b *testing.B) {
	for _, size := range []int{1, 64} {
		b.Run(fmt.Sprintf("batch=%d", size), func(b *testing.B) {
			source := func(n int) streams.Stream[int] {
				return streams.Create(func(_ context.Context, out streams.Sink[int]) {
					for n > 0 {
						batch := make([]int, min(size, n))
						n -= len(batch)
						if !out.Send(batch) {
							return
						}
					}
				})
			}
			quarter := b.N / 4
			consume(b, streams.Merge(source(quarter), source(quarter), source(quarter), source(b.N-3*quarter)))
		})
	}
}

// BenchmarkBatch sends values one by one through Batch.
func BenchmarkBatch(b *testing.B) {
	consume(b, streams.Batch(streams.Create(func(_ context.Context, out streams.Sink[int]) {
		for range b.N {
			if !out.Send([]int{1}) {
				return
			}
		}
	}), 64))
}

// BenchmarkQueue puts values one by one, as the callbacks of a watch do, while a receiver takes
// batches.
func BenchmarkQueue(b *testing.B) {
	queue := streams.NewQueue[int]()
	ctx, cancel := context.WithCancel(b.Context())
	group := lifecycle.New(ctx)
	received := 0
	group.Go("receiver", func(ctx context.Context) error {
		return streams.ForEach(ctx, streams.Create(queue.Drain), func(batch []int) {
			if received += len(batch); received == b.N {
				cancel()
			}
		}, func(err error) { b.Error(err) })
	})
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		queue.Put(ctx, i)
	}
	if err := group.Wait(); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkShare sends batches of 64 values through one Share to several observers, and reports
// ns per value of the input. A stuck observer reads nothing.
func BenchmarkShare(b *testing.B) {
	for _, test := range []struct {
		name             string
		observers, stuck int
	}{{"observers=1", 1, 0}, {"observers=4", 4, 0}, {"observers=64", 64, 0}, {"observers=4,stuck=1", 4, 1}} {
		b.Run(test.name, func(b *testing.B) {
			begin := make(chan struct{})
			source := streams.Create(func(ctx context.Context, out streams.Sink[int]) {
				select {
				case <-begin:
				case <-ctx.Done():
				}
				for n := b.N; n > 0; n -= 64 {
					if !out.Send(make([]int, min(64, n))) {
						return
					}
				}
			})
			sum := func(state int, batch []int) int { return state + len(batch) }
			replay := func(state int) []int { return make([]int, min(state, 1)) }
			shared := streams.Share(source, streams.ShareOptions[int, int]{Fold: sum, Replay: replay})
			ctx, cancel := context.WithCancel(b.Context())
			defer cancel()
			for range test.stuck {
				shared.Observe(ctx)
			}
			group := lifecycle.New(ctx)
			var missed atomic.Int64
			for range test.observers {
				items := shared.Observe(ctx)
				group.Go("observer", func(context.Context) error {
					for item := range items {
						if lagged := new(streams.Lagged); errors.As(item.E, &lagged) {
							missed.Add(int64(lagged.Missed))
						}
					}
					return nil
				})
			}
			b.ReportAllocs()
			b.ResetTimer()
			close(begin)
			if err := group.Wait(); err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(missed.Load())/float64(b.N*test.observers), "missed/value")
		})
	}
}
