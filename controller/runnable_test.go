package controller_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/cache"
	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/operators"
	"github.com/bellerophon-io/bellerophon/sources/sourcestest"
	corev1 "k8s.io/api/core/v1"
)

// journal records what happened, in order.
type journal struct {
	mu    sync.Mutex
	lines []string
}

func (j *journal) add(line string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, line)
}

// runnable returns a Run that records its begin and its end, which takes a while.
func (j *journal) runnable(name string, ends time.Duration) func(context.Context) error {
	return func(ctx context.Context) error {
		j.add(name + " begins")
		<-ctx.Done()
		<-time.After(ends)
		j.add(name + " ends")
		return nil
	}
}

func TestRunnablesStartAndEndInTheOrderOfTheirLevels(t *testing.T) {
	for name, test := range map[string]struct {
		drain time.Duration
		want  []string
	}{
		"in time":  {time.Second, []string{"server begins", "reconciled x", "bus begins", "bus ends", "server ends"}},
		"too late": {time.Minute, []string{"server begins", "reconciled x", "bus begins", "server ends", "bus ends"}},
	} {
		t.Run(name, func(t *testing.T) {
			inLevelWorld(t, sourcestest.Options{}, controller.Options{Grace: 10 * time.Second}, func(w *levelWorld) {
				var seen journal
				w.must(w.manager.AddRunnable(controller.Runnable{Name: "bus", Run: seen.runnable("bus", test.drain), From: cache.Settled}))
				w.must(w.manager.AddRunnable(controller.Runnable{Name: "server", Run: seen.runnable("server", 0)}))
				w.create("x")
				w.must(w.manager.Add("configs", func(_ context.Context, request operators.Request) (time.Duration, error) {
					seen.add("reconciled " + request.Name)
					return 0, nil
				}, controller.For(&corev1.ConfigMap{})))
				w.run()
				w.reach(cache.Settled, time.Second)
				w.wait(time.Second)
				if err := w.manager.AddRunnable(controller.Runnable{Name: "late", Run: seen.runnable("late", 0)}); err == nil {
					t.Error("a runnable was added while the manager runs")
				}
				w.group.Stop()
				w.must(w.group.Wait())
				if !slices.Equal(seen.lines, test.want) {
					t.Errorf("what happened is %q, want %q", seen.lines, test.want)
				}
			})
		})
	}
}

func TestARunnableThatFailsEndsTheManager(t *testing.T) {
	for _, from := range []cache.Level{cache.Starting, cache.Settled} {
		inLevelWorld(t, sourcestest.Options{}, controller.Options{}, func(w *levelWorld) {
			failed := errors.New("no bus")
			w.must(w.manager.AddRunnable(controller.Runnable{Name: "bus", From: from, Run: func(context.Context) error { return failed }}))
			w.must(w.manager.Add("configs", nothing, controller.For(&corev1.ConfigMap{})))
			if err := w.manager.Run(w.t.Context()); !errors.Is(err, failed) || !strings.Contains(err.Error(), "runnable bus") {
				t.Errorf("Run returns %v", err)
			}
		})
	}
}

func TestARunnableMayPanicOrReturnEarly(t *testing.T) {
	inLevelWorld(t, sourcestest.Options{}, controller.Options{}, func(w *levelWorld) {
		w.must(w.manager.AddRunnable(controller.Runnable{Name: "short", Run: func(context.Context) error { return nil }}))
		w.begin()
		w.reach(cache.Converged, time.Second)
	})
	inLevelWorld(t, sourcestest.Options{}, controller.Options{}, func(w *levelWorld) {
		w.must(w.manager.AddRunnable(controller.Runnable{Name: "wild", Run: func(context.Context) error { panic("wild") }}))
		w.must(w.manager.Add("configs", nothing, controller.For(&corev1.ConfigMap{})))
		if err := w.manager.Run(w.t.Context()); err == nil || !strings.Contains(err.Error(), "panic: wild") {
			t.Errorf("Run returns %v", err)
		}
	})
}
