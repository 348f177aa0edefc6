package controller_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bellerophon-io/bellerophon/operators"
)

// The gauges of the queue move while reconciles run, not only when they end. Otherwise a reconcile
// that hangs would not show.
func TestTheGaugesOfTheQueueShowAReconcileThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPark(t)
		p.create(config("x"))
		begun, goOn := make(chan struct{}, 2), make(chan struct{})
		p.must(p.manager.Add("slow", func(context.Context, operators.Request) (time.Duration, error) {
			begun <- struct{}{}
			<-goOn
			return 0, nil
		}, ofConfigs))
		p.run()
		<-begun
		p.touch("x")
		<-time.After(3 * time.Second)
		synctest.Wait()
		want := func(when string, running, unfinished, longest float64) {
			t.Helper()
			for series, want := range map[string]float64{
				// An object whose reconcile runs does not count as queued, even if it is requested again.
				"workqueue_depth{controller=slow,name=slow,priority=0}":                  0,
				"controller_runtime_active_workers{controller=slow}":                     running,
				"workqueue_unfinished_work_seconds{controller=slow,name=slow}":           unfinished,
				"workqueue_longest_running_processor_seconds{controller=slow,name=slow}": longest,
			} {
				if got, found := value(t, p.registry, series); !found || got != want {
					t.Errorf("%s %s is %v, found %v; want %v", when, series, got, found, want)
				}
			}
		}
		want("during the first", 1, 3, 3)
		close(goOn)
		<-begun
		p.calm()
		want("at the end", 0, 0, 0)
		if done, _ := value(t, p.registry, "workqueue_work_duration_seconds{controller=slow,name=slow}"); done != 2 {
			t.Errorf("%v reconciles are measured, want 2", done)
		}
		p.stop()
	})
}
