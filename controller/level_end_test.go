package controller_test

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bellerophon-io/bellerophon/cache"
	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/operators"
	"github.com/bellerophon-io/bellerophon/sources/sourcestest"
	"github.com/bellerophon-io/bellerophon/streams"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

func TestRunReturnsAsSoonAsTheLastReconcileHasThatOutlastsTheGrace(t *testing.T) {
	inLevelWorld(t, sourcestest.Options{}, controller.Options{Grace: time.Second}, func(w *levelWorld) {
		w.create("a", "b", "c", "d")
		w.must(w.manager.Add("stubborn", func(_ context.Context, request operators.Request) (time.Duration, error) {
			<-time.After(time.Duration(request.Name[0]-'a'+1) * 10 * time.Minute) // It ignores its context.
			return 0, nil
		}, controller.For(&corev1.ConfigMap{})))
		w.run()
		w.wait(time.Minute)
		ended := time.Now()
		w.group.Stop()
		w.must(w.group.Wait())
		if took := time.Since(ended); took != 39*time.Minute {
			t.Errorf("Run returned %v after its context ended, want 39m, when the last reconcile returns", took)
		}
	})
}

func TestRunReturnsWhenTheGraceIsOverWhileTheServerHangsOnWrites(t *testing.T) {
	inLevelWorld(t, sourcestest.Options{}, controller.Options{Grace: time.Second}, func(w *levelWorld) {
		w.create("a", "b", "c", "d")
		w.must(w.manager.Add("writing", func(ctx context.Context, request operators.Request) (time.Duration, error) {
			object, _ := cached[*corev1.ConfigMap](w.manager.Client(), request.NamespacedName)
			changed := object.DeepCopy()
			changed.Data = map[string]string{"done": "yes"}
			_, err := controller.Patch(ctx, w.manager.Client(), changed, controller.MergeFrom(object))
			return 0, err
		}, controller.For(&corev1.ConfigMap{})))
		w.must(w.server.Inject(sourcestest.Fault{Action: sourcestest.Hang, Verb: "patch", Times: sourcestest.Always}))
		w.run()
		w.wait(10 * time.Second)
		ended := time.Now()
		w.group.Stop()
		w.must(w.group.Wait())
		if took := time.Since(ended); took > 2*time.Second {
			t.Errorf("Run returned %v after its context ended", took)
		}
	})
}

func TestTheDeadlineOfRunIsANormalEnd(t *testing.T) {
	for name, script := range map[string][]sourcestest.Fault{
		"during the start": {{Action: sourcestest.Hang, Times: sourcestest.Always}},
		"when all is calm": nil,
	} {
		t.Run(name, func(t *testing.T) {
			inLevelWorld(t, sourcestest.Options{Script: script}, controller.Options{}, func(w *levelWorld) {
				w.create("x")
				w.must(w.manager.Add("configs", w.noting, controller.For(&corev1.ConfigMap{})))
				ctx, cancel := context.WithTimeout(w.t.Context(), time.Minute)
				defer cancel()
				if err := w.manager.Run(ctx); err != nil {
					t.Errorf("Run fails: %v", err)
				}
			})
		})
	}
}

func TestReconcilesOfOneControllerThatHangLeaveOthersTheirShare(t *testing.T) {
	inLevelWorld(t, sourcestest.Options{}, controller.Options{}, func(w *levelWorld) {
		for range 4 {
			for i := range 20 {
				w.create(string(rune('a'+i)) + time.Now().Format("150405"))
			}
			w.wait(time.Second)
		}
		w.must(w.manager.Add("hanging", func(ctx context.Context, _ operators.Request) (time.Duration, error) {
			<-ctx.Done()
			return 0, ctx.Err()
		}, controller.For(&corev1.ConfigMap{})))
		others := 0
		w.must(w.manager.Add("others", func(context.Context, operators.Request) (time.Duration, error) {
			others++
			return 0, nil
		}, controller.For(&corev1.Secret{})))
		w.run()
		w.wait(time.Second)
		for i := range 10 {
			w.must(w.server.Create(secret(string(rune('a' + i)))))
		}
		w.wait(time.Second)
		if others != 10 {
			t.Errorf("%d of 10 objects of the other controller were reconciled", others)
		}
		w.below(cache.Settled, "while reconciles hang")
	})
}

// A reconciler in a test may call t.FailNow, which calls runtime.Goexit. Only that attempt fails.
func TestAReconcilerThatExitsItsGoroutineFailsThatAttemptAlone(t *testing.T) {
	inLevelWorld(t, sourcestest.Options{}, controller.Options{}, func(w *levelWorld) {
		w.create("x")
		first := true
		w.must(w.manager.Add("configs", func(ctx context.Context, request operators.Request) (time.Duration, error) {
			if first {
				first = false
				runtime.Goexit()
			}
			return w.noting(ctx, request)
		}, controller.For(&corev1.ConfigMap{})))
		w.run()
		synctest.Wait()
		w.reach(cache.Converged, time.Minute)
		w.isTrue("in the end")
	})
}

// Nothing can stop a goroutine that exits, and the changes that it was working on are lost. So Run must
// end, and say why. A manager that goes on without its pipeline would never be Settled again.
func TestRunFailsIfAMapFunctionExitsItsGoroutine(t *testing.T) {
	inLevelWorld(t, sourcestest.Options{}, controller.Options{}, func(w *levelWorld) {
		w.create("x")
		w.must(w.manager.Add("configs", func(ctx context.Context, request operators.Request) (time.Duration, error) {
			<-time.After(10 * time.Second)
			return w.noting(ctx, request)
		}, controller.For(&corev1.ConfigMap{}), controller.Watches(&corev1.Secret{}, func(streams.Object) []types.NamespacedName {
			runtime.Goexit()
			return nil
		})))
		w.group.Go("secret", func(context.Context) error {
			<-time.After(5 * time.Second)
			return w.server.Create(secret("s"))
		})
		began := time.Now()
		if err := w.manager.Run(w.t.Context()); !errors.Is(err, streams.ErrExited) {
			t.Errorf("Run returns %v, want an error that names runtime.Goexit", err)
		}
		if took := time.Since(began); took.Round(time.Second) != 10*time.Second || w.attempts != 1 {
			t.Errorf("Run returned after %v and %d attempts, want as soon as the attempt in flight has ended", took, w.attempts)
		}
	})
}

func TestADeadlineWhileAnAddressIsLookedUpIsANormalEnd(t *testing.T) {
	inLevelWorld(t, sourcestest.Options{}, controller.Options{HealthAddress: "localhost:0", MetricsAddress: "localhost:0"}, func(w *levelWorld) {
		w.must(w.manager.Add("configs", w.noting, controller.For(&corev1.ConfigMap{})))
		ctx, cancel := context.WithTimeout(w.t.Context(), 0)
		defer cancel()
		if err := w.manager.Run(ctx); err != nil {
			t.Errorf("Run fails: %v", err)
		}
	})
}
