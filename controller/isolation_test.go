package controller_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/cache"
	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/operators"
	"github.com/bellerophon-io/bellerophon/sources/sourcestest"
	corev1 "k8s.io/api/core/v1"
)

// p99OfOthers changes 1,000 config maps, some at a time, while stuck reconciles of secrets hang. It returns
// the p99 of the time from the event to the end of the reconcile.
func p99OfOthers(t *testing.T, stuck, atOnce int) (p99 time.Duration) {
	t.Helper()
	const (
		changes = 1_000
		pause   = 5 * time.Millisecond
		work    = 5 * time.Millisecond
	)
	var mu sync.Mutex
	var took []time.Duration
	options := controller.Options{OnResult: func(result operators.Result) {
		if result.Controller == "configs" && len(result.Causes) > 0 {
			mu.Lock()
			defer mu.Unlock()
			took = append(took, result.Started.Add(result.Duration).Sub(result.Received))
		}
	}}
	inLevelWorld(t, sourcestest.Options{}, options, func(w *levelWorld) {
		w.must(w.manager.Add("secrets", func(ctx context.Context, _ operators.Request) (time.Duration, error) {
			<-ctx.Done()
			return 0, nil
		}, controller.For(&corev1.Secret{}), controller.ReconcileTimeout(time.Hour)))
		w.must(w.manager.Add("configs", func(context.Context, operators.Request) (time.Duration, error) {
			<-time.After(work)
			return 0, nil
		}, controller.For(&corev1.ConfigMap{})))
		w.run()
		w.reach(cache.Settled, time.Second)
		for i := range stuck {
			w.must(w.server.Create(secret(fmt.Sprint("s", i))))
		}
		w.wait(time.Second)
		for i := range changes {
			w.create(fmt.Sprint("c", i))
			if i%atOnce == 0 {
				w.wait(pause)
			}
		}
		w.wait(time.Second)
	})
	mu.Lock()
	defer mu.Unlock()
	slices.Sort(took)
	if len(took) != changes {
		t.Fatalf("with %d stuck, %d of %d changes are reconciled", stuck, len(took), changes)
	}
	return took[changes*99/100]
}

func TestStuckReconcilesOfOneControllerLeaveAnothersP99WithinOneFifthMore(t *testing.T) {
	for _, atOnce := range []int{1, 8, 25} {
		alone := p99OfOthers(t, 0, atOnce)
		for _, stuck := range []int{32, 100} {
			beside := p99OfOthers(t, stuck, atOnce)
			t.Logf("%d at once: p99 alone %v, beside %d stuck reconciles %v", atOnce, alone, stuck, beside)
			if float64(beside) > 1.2*float64(alone) {
				t.Errorf("beside %d stuck reconciles the p99 of %d at once is %v, alone %v; want within 1.2 times", stuck, atOnce, beside, alone)
			}
		}
	}
}
