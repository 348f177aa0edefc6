package pipeline_test

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/cache"
	"github.com/bellerophon-io/bellerophon/controller/pipeline"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/operators"
	"github.com/bellerophon-io/bellerophon/streams"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var kind = schema.GroupKind{Kind: "ConfigMap"}

// events returns n events, one for each change. The changes cycle through the keys.
func events(n, keys int) []streams.Event {
	made := make([]streams.Event, n)
	now := time.Now()
	for i := range made {
		name := fmt.Sprintf("object-%d", i%keys)
		object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: "default", UID: types.UID(name), ResourceVersion: strconv.Itoa(i + 1),
		}}
		made[i] = streams.Event{
			Type: streams.Applied, Source: "bench", Key: streams.KeyOf(kind, object),
			Object: object, ResourceVersion: object.ResourceVersion, Received: now,
		}
	}
	return made
}

// assemble makes the pipeline of a manager, of a source and one controller.
func assemble(b *testing.B, source streams.Stream[streams.Event], window time.Duration, reconcile operators.Reconciler) *pipeline.Pipeline {
	b.Helper()
	held, err := cache.New(cache.LoopOptions{}, slog.New(slog.DiscardHandler))
	if err != nil {
		b.Fatal(err)
	}
	held.Add(kind, cache.ByOwner)
	made, err := pipeline.New(source, pipeline.Options{
		Cache:       held,
		Rules:       operators.NewRules(operators.Rule{Controller: "bench", Kind: kind}),
		Controllers: operators.NewControllers(map[string]operators.Controller{"bench": {Reconcile: reconcile}}),
		Window:      window,
	})
	if err != nil {
		b.Fatal(err)
	}
	return made
}

// batches emits events in batches of a size.
func batches(in []streams.Event, size int) streams.Stream[streams.Event] {
	return streams.Create(func(_ context.Context, out streams.Sink[streams.Event]) {
		for start := 0; start < len(in); start += size {
			end := min(start+size, len(in))
			if !out.Send(in[start:end:end]) { // The receiver owns a batch, including its spare capacity.
				return
			}
		}
	})
}

// BenchmarkPipeline sends events of many keys from the source to the reconciler. One operation is
// one event.
func BenchmarkPipeline(b *testing.B) {
	nothing := func(context.Context, operators.Request) (time.Duration, error) { return 0, nil }
	for _, keys := range []int{100, 10_000} {
		for _, batch := range []int{1, 64} {
			for _, window := range []time.Duration{0, operators.DefaultWindow} {
				b.Run(fmt.Sprintf("keys=%d/batch=%d/window=%v", keys, batch, window), func(b *testing.B) {
					in := events(b.N, keys)
					b.ReportAllocs()
					b.ResetTimer()
					reconciles := 0
					err := assemble(b, streams.Merge(batches(in, batch)), window, nothing).Run(b.Context(),
						func(results []operators.Result) { reconciles += len(results) },
						func(err error) { b.Error(err) })
					if err != nil {
						b.Fatal(err)
					}
					b.ReportMetric(float64(reconciles)/float64(b.N), "reconciles/op")
				})
			}
		}
	}
}

// BenchmarkLatency measures the latency that an idle pipeline adds to a reaction. It sends one
// event at a time and waits for its reconcile.
func BenchmarkLatency(b *testing.B) {
	reached := make(chan struct{})
	reconcile := func(context.Context, operators.Request) (time.Duration, error) {
		reached <- struct{}{}
		return 0, nil
	}
	in := events(b.N, b.N)
	next := make(chan streams.Event)
	source := streams.Create(func(ctx context.Context, out streams.Sink[streams.Event]) {
		for {
			select {
			case <-ctx.Done():
				return
			case event, open := <-next:
				if !open || !out.Send([]streams.Event{event}) {
					return
				}
			}
		}
	})
	made := assemble(b, source, operators.DefaultWindow, reconcile)
	group := lifecycle.New(b.Context())
	group.Go("pipeline", func(ctx context.Context) error {
		return made.Run(ctx, func([]operators.Result) {}, func(err error) { b.Error(err) })
	})
	b.ResetTimer()
	for _, event := range in {
		next <- event
		<-reached
	}
	b.StopTimer()
	close(next)
	if err := group.Wait(); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkGet reads from the cache on all processors in parallel.
func BenchmarkGet(b *testing.B) {
	const keys = 10_000
	held, err := cache.New(cache.LoopOptions{}, slog.New(slog.DiscardHandler))
	if err != nil {
		b.Fatal(err)
	}
	store := held.Add(kind, cache.ByOwner)
	held.Apply(events(keys, keys))
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for i := 0; pb.Next(); i++ {
			if _, found := store.Get(types.NamespacedName{Namespace: "default", Name: "object-7"}); !found {
				b.Error("not found")
			}
		}
	})
}
