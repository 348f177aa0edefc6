package controller_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bellerophon-io/bellerophon/cache"
	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/operators"
	"github.com/bellerophon-io/bellerophon/sources/sourcestest"
	"github.com/bellerophon-io/bellerophon/streams"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

func TestAKeyThatFailsMoreOftenThanTheQuietPeriodLastsHoldsUpConvergedAlone(t *testing.T) {
	options := controller.Options{Backoff: operators.Backoff{First: time.Second, Max: 5 * time.Second}, Loop: cache.LoopOptions{Floor: time.Second}}
	inLevelWorld(t, sourcestest.Options{}, options, func(w *levelWorld) {
		w.create("good", "bad")
		var mended atomic.Bool
		w.must(w.manager.Add("configs", w.failing(&mended), controller.For(&corev1.ConfigMap{})))
		w.run()
		w.wait(time.Minute)
		settled := 0
		for range 3600 {
			w.wait(time.Second)
			if w.level() >= cache.Settled {
				settled++
			}
		}
		if settled < 3500 {
			t.Errorf("in an hour the level was Settled for %d s; a key is retried every 5 s, and the quiet period is %v", settled, w.manager.Cache().Loop().QuietPeriod())
		}
	})
}

// The second kind of a controller is forbidden. An object that does not wait for it has failed once.
func TestAnEarlyRequestOfABlockedControllerThatBacksOffHoldsUpSettled(t *testing.T) {
	refuse := sourcestest.Fault{Action: sourcestest.Refuse, Resource: "secrets", Code: http.StatusForbidden, Times: sourcestest.Always}
	inLevelWorld(t, sourcestest.Options{Script: []sourcestest.Fault{refuse}}, controller.Options{Backoff: operators.Backoff{First: time.Minute}}, func(w *levelWorld) {
		w.create("x")
		attempts := 0
		w.must(w.manager.Add("configs", w.noting, controller.For(&corev1.ConfigMap{})))
		w.must(w.manager.Add("blocked", func(context.Context, operators.Request) (time.Duration, error) {
			attempts++
			return 0, errors.New("not yet")
		}, controller.For(&corev1.ConfigMap{}, controller.ReconcileBeforeSync(func(*corev1.ConfigMap) bool { return true }, "")), controller.Owns(&corev1.Secret{})))
		w.run()
		w.wait(30 * time.Second)
		if level := w.level(); level >= cache.Settled {
			t.Errorf("the level is %v while a key that failed %d times backs off; pending %q", level, attempts, w.manager.Cache().Pending(cache.Converged))
		}
	})
}

// When the requeue is due, it waits for the kinds of the controller, as nothing else of the controller can run.
func TestAnEarlyRequestOfABlockedControllerThatIsDueAgainHoldsUpSettled(t *testing.T) {
	refuse := sourcestest.Fault{Action: sourcestest.Refuse, Resource: "secrets", Code: http.StatusForbidden, Times: sourcestest.Always}
	inLevelWorld(t, sourcestest.Options{Script: []sourcestest.Fault{refuse}}, controller.Options{Workers: 1}, func(w *levelWorld) {
		w.create("x", "y")
		w.must(w.manager.Add("configs", w.noting, controller.For(&corev1.ConfigMap{})))
		w.must(w.manager.Add("blocked", func(context.Context, operators.Request) (time.Duration, error) {
			return 4 * time.Second, nil
		}, controller.For(&corev1.ConfigMap{}, controller.ReconcileBeforeSync(func(*corev1.ConfigMap) bool { return true }, "")), controller.Owns(&corev1.Secret{})))
		w.run()
		w.wait(3 * time.Second)
		if level := w.level(); level >= cache.Settled {
			t.Errorf("the level is %v while keys are due again within 5 s; pending %q", level, w.manager.Cache().Pending(cache.Settled))
		}
	})
}

func TestAnOwnWriteWithoutAVersionIsPassedByItsEvent(t *testing.T) {
	inLevelWorld(t, sourcestest.Options{NoResourceVersions: []schema.GroupVersionKind{corev1.SchemeGroupVersion.WithKind("ConfigMap")}}, controller.Options{}, func(w *levelWorld) {
		w.create("x")
		w.begin()
		w.reach(cache.Settled, time.Minute)
		_, err := controller.Create(w.t.Context(), w.manager.Client(), config("own"))
		w.must(err)
		name := types.NamespacedName{Namespace: "a", Name: "own"}
		if _, found := cached[*corev1.ConfigMap](w.manager.Client(), name); !found {
			t.Error("the own write is not read")
		}
		w.wait(10 * time.Minute)
		if w.level() < cache.OwnWritesVisible {
			t.Errorf("ten minutes after an own write the level is %v", w.level())
		}
		w.must(w.server.Delete(config("own")))
		w.wait(2 * time.Hour)
		if _, found := cached[*corev1.ConfigMap](w.manager.Client(), name); found {
			t.Errorf("the object is read two hours after its deletion, at level %v", w.level())
		}
	})
}

// The version of the answer shows that the server was restored, before the source finds out.
func TestAnOwnWriteAfterARestoreIsRead(t *testing.T) {
	inLevelWorld(t, sourcestest.Options{}, controller.Options{}, func(w *levelWorld) {
		w.create("x")
		backup := w.server.Snapshot()
		w.begin()
		w.reach(cache.Converged, time.Second)
		for i := range 50 {
			w.create(fmt.Sprint("y", i))
		}
		w.wait(bound)
		w.reach(cache.Converged, time.Minute)
		w.server.Restore(backup)
		w.wait(time.Second)
		written, err := controller.Create(w.t.Context(), w.manager.Client(), config("own"))
		w.must(err)
		name := types.NamespacedName{Namespace: "a", Name: "own"}
		_, found := cached[*corev1.ConfigMap](w.manager.Client(), name)
		if level := w.level(); !found || level >= cache.OwnWritesVisible {
			t.Errorf("the own write of version %s is read: %t, at level %v", written.ResourceVersion, found, level)
		}
		w.wait(bound)
		w.reach(cache.Settled, 2*bound)
		w.isTrue("in the end")
	})
}

// The stage works on after it has sent an event, as the rules of StageStats allow.
func TestAWaitEndsAfterAStageThatEndsItsWorkWithoutAnEvent(t *testing.T) {
	stats := &operators.StageStats{}
	slow := controller.Stage{Name: "slow", Stats: stats, Run: func(in streams.Stream[streams.Event]) streams.Stream[streams.Event] {
		return streams.Create(func(ctx context.Context, out streams.Sink[streams.Event]) {
			_ = streams.ForEach(ctx, in, func(batch []streams.Event) { // It fails only if a callback panics.
				stats.Running.Add(1)
				stats.In.Add(int64(len(batch)))
				out.Send(batch)
				stats.Out.Add(int64(len(batch)))
				<-time.After(time.Second) // This is the rest of the stage's work.
				stats.Running.Add(-1)
			}, func(err error) { out.Error(err) })
		})
	}}
	inLevelWorld(t, sourcestest.Options{}, controller.Options{Stages: []controller.Stage{slow}}, func(w *levelWorld) {
		w.create("x")
		w.begin()
		w.wait(30 * time.Second)
		w.reach(cache.Settled, time.Minute)
		for w.level() >= cache.Settled { // until the stage has the next bookmark
			w.wait(100 * time.Millisecond)
		}
		started := time.Now()
		ctx, cancel := context.WithTimeout(w.t.Context(), time.Hour)
		defer cancel()
		told := make(chan time.Duration, 1)
		w.group.Go("waiter", func(context.Context) error {
			_ = w.manager.Cache().Wait(ctx, cache.Settled)
			told <- time.Since(started)
			return nil
		})
		w.wait(5 * time.Second)
		level := w.level()
		if took := <-told; took > 5*time.Second {
			t.Errorf("after 5 s Level() was %v, and Wait(Settled) returned after %v", level, took)
		}
	})
}

func TestAControllerThatIsAddedWhileAllWorkersHangGetsOne(t *testing.T) {
	inLevelWorld(t, sourcestest.Options{}, controller.Options{}, func(w *levelWorld) {
		for i := range 40 {
			w.create(fmt.Sprint("x", i))
		}
		w.must(w.server.Create(secret("s")))
		w.must(w.manager.Add("hanging", func(ctx context.Context, _ operators.Request) (time.Duration, error) {
			<-ctx.Done()
			return 0, ctx.Err()
		}, controller.For(&corev1.ConfigMap{})))
		w.run()
		w.wait(time.Second)
		others := 0
		w.must(w.manager.Add("others", func(context.Context, operators.Request) (time.Duration, error) {
			others++
			return 0, nil
		}, controller.For(&corev1.Secret{})))
		w.wait(10 * time.Second)
		if others == 0 {
			t.Error("10 s after it was added, the other controller has no worker")
		}
	})
}

func TestAReadInFlightDuringALossDoesNotEnterTheLoopDuration(t *testing.T) {
	inLevelWorld(t, sourcestest.Options{}, controller.Options{Timeout: 2 * time.Hour}, func(w *levelWorld) {
		w.create("x")
		read := false
		w.must(w.manager.Add("configs", func(ctx context.Context, request operators.Request) (time.Duration, error) {
			object, found := cached[*corev1.ConfigMap](w.manager.Client(), request.NamespacedName)
			if !found || object.Data["changed"] == "" || read {
				return 0, nil
			}
			read = true
			w.must(w.server.Inject(
				sourcestest.Fault{Action: sourcestest.Slow, Verb: "get", For: time.Hour},
				sourcestest.Fault{Action: sourcestest.Disconnect, Verb: "watch", Times: sourcestest.Always},
				sourcestest.Fault{Action: sourcestest.Disconnect, Verb: "list", Times: sourcestest.Always}))
			w.server.Break()
			_, err := controller.GetLive[*corev1.ConfigMap](ctx, w.manager.Client(), request.NamespacedName)
			return 0, err
		}, controller.For(&corev1.ConfigMap{})))
		w.run()
		w.reach(cache.Settled, time.Second)
		w.wait(time.Minute)
		w.change("x")
		w.wait(time.Hour + time.Second)
		w.server.Heal()
		ctx, cancel := context.WithTimeout(w.t.Context(), 5*time.Hour)
		defer cancel()
		w.must(w.manager.Cache().Wait(ctx, cache.Settled))
		if loop := w.manager.Cache().Loop().Duration(); loop > time.Second {
			t.Errorf("the loop duration is %v, and the calm takes %v: an outage is in it", loop, w.manager.Cache().Loop().QuietPeriod())
		}
	})
}

func TestRequestsThatWaitForReadsThatHangDoNotEnterTheLoopDuration(t *testing.T) {
	inLevelWorld(t, sourcestest.Options{}, controller.Options{}, func(w *levelWorld) {
		for i := range 200 {
			w.create(fmt.Sprint("x", i))
		}
		w.must(w.manager.Add("configs", func(ctx context.Context, request operators.Request) (time.Duration, error) {
			_, err := controller.GetLive[*corev1.ConfigMap](ctx, w.manager.Client(), request.NamespacedName)
			return 0, err
		}, controller.For(&corev1.ConfigMap{})))
		w.must(w.server.Inject(sourcestest.Fault{Action: sourcestest.Hang, Verb: "get", Times: sourcestest.Always}))
		w.run()
		w.wait(7 * time.Minute)
		w.server.Heal()
		ctx, cancel := context.WithTimeout(w.t.Context(), 5*time.Hour)
		defer cancel()
		w.must(w.manager.Cache().Wait(ctx, cache.Settled))
		if loop := w.manager.Cache().Loop().Duration(); loop > time.Second {
			t.Errorf("the loop duration is %v, and the calm takes %v: an outage is in it", loop, w.manager.Cache().Loop().QuietPeriod())
		}
	})
}

func TestAWaitEndsWhenARetriedMapFunctionReturns(t *testing.T) {
	missed := 0
	const runs = 100
	for range runs {
		inLevelWorld(t, sourcestest.Options{NoBookmarks: true}, controller.Options{MaxStaleness: -1}, func(w *levelWorld) {
			panics := 8
			concerned := func(streams.Object) []types.NamespacedName {
				if panics > 0 {
					panics--
					panic("not now")
				}
				return nil
			}
			w.must(w.manager.Add("configs", w.noting, controller.For(&corev1.Secret{}), controller.Watches(&corev1.ConfigMap{}, concerned)))
			w.run()
			w.create("x")
			w.reach(cache.Settled, time.Minute)
			ctx, cancel := context.WithTimeout(w.t.Context(), time.Hour)
			defer cancel()
			started := time.Now()
			if w.manager.Cache().Wait(ctx, cache.Converged) != nil && w.level() == cache.Converged || time.Since(started) > time.Minute {
				missed++
			}
		})
	}
	if missed > 0 {
		t.Errorf("%d of %d waits for Converged did not end", missed, runs)
	}
}

func TestRunFailsIfAMapFunctionExitsWhileItsControllerJoins(t *testing.T) {
	inLevelWorld(t, sourcestest.Options{}, controller.Options{}, func(w *levelWorld) {
		w.create("x", "y")
		w.must(w.manager.Add("configs", w.noting, controller.For(&corev1.ConfigMap{})))
		w.group.Go("joining", func(context.Context) error {
			w.reach(cache.Converged, time.Second)
			err := w.manager.Add("late", nothing, controller.For(&corev1.Secret{}), controller.Watches(&corev1.ConfigMap{}, func(streams.Object) []types.NamespacedName {
				runtime.Goexit()
				return nil
			}))
			synctest.Wait()
			w.below(cache.Settled, "when requests of the controller that joined are lost")
			return err
		})
		if err := w.manager.Run(w.t.Context()); !errors.Is(err, streams.ErrExited) {
			t.Errorf("Run returns %v, want an error that names runtime.Goexit", err)
		}
	})
}
