package controller_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/cache"
	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/operators"
	"github.com/bellerophon-io/bellerophon/sources/sourcestest"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

func TestAControllerKeepsItsOwnLimits(t *testing.T) {
	inLevelWorld(t, sourcestest.Options{}, controller.Options{Workers: 16}, func(w *levelWorld) {
		for i := range 20 {
			w.create(fmt.Sprint("x", i))
			w.must(w.server.Create(secret(fmt.Sprint("s", i))))
		}
		running, most, done := 0, 0, 0
		var ended []error
		w.must(w.manager.Add("limited", func(ctx context.Context, _ operators.Request) (time.Duration, error) {
			w.mu.Lock()
			running++
			most = max(most, running)
			w.mu.Unlock()
			<-ctx.Done() // Its own timeout ends it.
			w.mu.Lock()
			defer w.mu.Unlock()
			running--
			ended = append(ended, ctx.Err())
			return 0, operators.Terminal(ctx.Err())
		}, controller.For(&corev1.ConfigMap{}), controller.MaxConcurrentReconciles(3), controller.ReconcileTimeout(10*time.Second)))
		w.must(w.manager.Add("free", func(context.Context, operators.Request) (time.Duration, error) {
			<-time.After(time.Second)
			w.mu.Lock()
			defer w.mu.Unlock()
			done++
			return 0, nil
		}, controller.For(&corev1.Secret{})))
		w.run()
		w.wait(3 * time.Second)
		if done != 20 {
			t.Errorf("the other controller has done %d of 20 objects after 3 s, with 13 workers left", done)
		}
		w.wait(70 * time.Second)
		if most != 3 || len(ended) != 20 {
			t.Errorf("%d reconciles ran at once, and %d of 20 have ended after 73 s", most, len(ended))
		}
	})
}

func TestAControllerBacksOffByItsOwnPolicy(t *testing.T) {
	inLevelWorld(t, sourcestest.Options{}, controller.Options{}, func(w *levelWorld) {
		w.create("x")
		attempts := 0
		w.must(w.manager.Add("patient", func(context.Context, operators.Request) (time.Duration, error) {
			attempts++
			return 0, errors.New("not yet")
		}, controller.For(&corev1.ConfigMap{}), controller.RetryBackoff(operators.Backoff{First: time.Minute, Max: time.Minute, Jitter: -1})))
		w.run()
		w.wait(10*time.Minute + time.Second)
		if attempts != 11 {
			t.Errorf("there were %d attempts in 10 minutes, want one a minute", attempts)
		}
	})
}

func TestALimitOutOfItsRangeIsRefused(t *testing.T) {
	for want, limit := range map[string]controller.Option{
		"MaxConcurrent is -1; allowed is 1 to 1024":   controller.MaxConcurrentReconciles(0),
		"MaxConcurrent is 2000; allowed":              controller.MaxConcurrentReconciles(2000),
		"Timeout is 1µs; allowed is 1ms to 24h":       controller.ReconcileTimeout(time.Microsecond),
		"backoff: First is 2h0m0s; allowed is 1ms to": controller.RetryBackoff(operators.Backoff{First: 2 * time.Hour, Max: time.Hour}),
	} {
		m := manager(t, silent, controller.Options{})
		if err := m.Add("x", nothing, controller.For(&corev1.ConfigMap{}), limit); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %v, want one that contains %q", err, want)
		}
	}
}

func TestAControllerWaitsAsItsOwnFunctionSays(t *testing.T) {
	for name, test := range map[string]struct {
		delay func(failures int) time.Duration
		want  []time.Duration // since the first attempt
	}{
		"a function":             {func(failures int) time.Duration { return time.Duration(failures) * time.Second }, []time.Duration{0, time.Second, 3 * time.Second, 6 * time.Second}},
		"below zero":             {func(int) time.Duration { return -time.Hour }, []time.Duration{0, 0, 0, 0}},
		"a function that panics": {func(int) time.Duration { panic("no") }, []time.Duration{0, 100 * time.Millisecond, 300 * time.Millisecond, 700 * time.Millisecond}},
	} {
		t.Run(name, func(t *testing.T) {
			inLevelWorld(t, sourcestest.Options{}, controller.Options{}, func(w *levelWorld) {
				var attempts []time.Time
				w.create("x")
				w.must(w.manager.Add("configs", func(context.Context, operators.Request) (time.Duration, error) {
					if attempts = append(attempts, time.Now()); len(attempts) == len(test.want) {
						return 0, nil
					}
					return 0, errors.New("not yet")
				}, controller.For(&corev1.ConfigMap{}), controller.RetryBackoff(operators.Backoff{First: 100 * time.Millisecond, Jitter: -1}),
					controller.RetryDelay(func(_ types.NamespacedName, failures int) time.Duration { return test.delay(failures) })))
				w.run()
				w.reach(cache.Converged, time.Minute)
				var took []time.Duration
				for _, attempt := range attempts {
					took = append(took, attempt.Sub(attempts[0]))
				}
				if !slices.Equal(took, test.want) {
					t.Errorf("the attempts came after %v, want %v", took, test.want)
				}
			})
		})
	}
}
