package pipeline

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/cache"
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

// pipeline builds the pipeline of a manager, from batches of events to results.
func pipeline(b *testing.B, in []streams.Event, batch int, window time.Duration, reconcile operators.Reconciler) streams.Stream[operators.Result] {
	b.Helper()
	held, err := cache.New(cache.LoopOptions{}, slog.New(slog.DiscardHandler))
	if err != nil {
		b.Fatal(err)
	}
	held.Add(kind, cache.ByOwner)
	source := streams.Create(func(_ context.Context, out streams.Sink[streams.Event]) {
		for start := 0; start < len(in); start += batch {
			end := min(start+batch, len(in))
			if !out.Send(in[start:end:end]) { // The receiver owns a batch, including its spare capacity.
				return
			}
		}
	})
	changes := held.Through(operators.Debounce(streams.Merge(source), operators.DebounceOptions{Window: window}))
	requests := operators.Trigger(changes, operators.NewRules(operators.Rule{Controller: "bench", Kind: kind}))
	return operators.Reconcile(requests, operators.NewControllers(map[string]operators.Controller{"bench": {Reconcile: reconcile}}), operators.ReconcileOptions{})
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
					err := streams.ForEach(b.Context(), pipeline(b, in, batch, window, nothing),
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
	held, err := cache.New(cache.LoopOptions{}, slog.New(slog.DiscardHandler))
	if err != nil {
		b.Fatal(err)
	}
	held.Add(kind, cache.ByOwner)
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
	changes := held.Through(operators.Debounce(source, operators.DebounceOptions{Window: operators.DefaultWindow}))
	requests := operators.Trigger(changes, operators.NewRules(operators.Rule{Controller: "bench", Kind: kind}))
	results := operators.Reconcile(requests, operators.NewControllers(map[string]operators.Controller{"bench": {Reconcile: reconcile}}), operators.ReconcileOptions{})
	group := lifecycle.New(b.Context())
	group.Go("results", func(ctx context.Context) error {
		return streams.ForEach(ctx, results, func([]operators.Result) {}, func(err error) { b.Error(err) })
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
