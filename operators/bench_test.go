package operators_test

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/operators"
	"github.com/bellerophon-io/bellerophon/streams"
)

// inBatches returns a stream of n values in batches of a size. value makes each from its number.
func inBatches[T any](n, size int, value func(i int) T) streams.Stream[T] {
	return streams.Create(func(_ context.Context, out streams.Sink[T]) {
		for i := 0; i < n; {
			batch := make([]T, 0, size)
			for ; i < n && len(batch) < size; i++ {
				batch = append(batch, value(i))
			}
			if !out.Send(batch) {
				return
			}
		}
	})
}

// manyNames are names for unique keys: benchmarks use them in pairs.
var manyNames = func() []string {
	names := make([]string, 1<<16)
	for i := range names {
		names[i] = strconv.Itoa(i + 1)
	}
	return names
}()

// BenchmarkDebounce sends an event through Debounce. The event has a key of its own, or one of ten
// keys, whose events are coalesced.
func BenchmarkDebounce(b *testing.B) {
	for _, window := range []time.Duration{0, operators.DefaultWindow} {
		for _, keys := range []string{"unique", "hot"} {
			for _, size := range []int{1, 64} {
				b.Run(fmt.Sprintf("window=%v/keys=%s/batch=%d", window, keys, size), func(b *testing.B) {
					object := event("pod@1")
					in := inBatches(b.N, size, func(i int) streams.Event {
						made := object
						made.ResourceVersion = manyNames[i%len(manyNames)]
						if keys == "unique" {
							made.Key.Namespace, made.Key.Name = manyNames[i/len(manyNames)], manyNames[i%len(manyNames)]
						} else {
							made.Key.Name = manyNames[i%10]
						}
						return made
					})
					out := operators.Debounce(in, operators.DebounceOptions{Window: window})
					b.ReportAllocs()
					b.ResetTimer()
					sent := 0
					err := streams.ForEach(b.Context(), out, func(batch []streams.Event) { sent += len(batch) }, func(err error) { b.Error(err) })
					if err != nil || keys == "unique" && sent != b.N {
						b.Fatalf("sent %d of %d events: %v", sent, b.N, err)
					}
					b.ReportMetric(float64(sent)/float64(b.N), "out/op")
				})
			}
		}
	}
}

// BenchmarkReconcile sends a request for an object of its own through Reconcile. The reconciler
// does nothing.
func BenchmarkReconcile(b *testing.B) {
	nothing := func(context.Context, operators.Request) (time.Duration, error) { return 0, nil }
	for _, workers := range []int{4, 16} {
		for _, size := range []int{1, 64} {
			b.Run(fmt.Sprintf("workers=%d/batch=%d", workers, size), func(b *testing.B) {
				in := inBatches(b.N, size, func(i int) operators.Request {
					made := operators.Request{Controller: "pods"}
					made.Namespace, made.Name = manyNames[i/len(manyNames)], manyNames[i%len(manyNames)]
					return made
				})
				results := operators.Reconcile(in, only(nothing), operators.ReconcileOptions{Workers: workers})
				b.ReportAllocs()
				b.ResetTimer()
				attempts := 0
				err := streams.ForEach(b.Context(), results, func(batch []operators.Result) { attempts += len(batch) }, func(err error) { b.Error(err) })
				if err != nil || attempts != b.N {
					b.Fatalf("made %d of %d attempts: %v", attempts, b.N, err)
				}
			})
		}
	}
}
