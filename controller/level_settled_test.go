package controller_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/cache"
	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/operators"
	"github.com/bellerophon-io/bellerophon/sources/sourcestest"
	"github.com/bellerophon-io/bellerophon/streams"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// slowly returns a map function that maps each object to its own name after the given time.
func slowly(takes time.Duration) func(streams.Object) []types.NamespacedName {
	return func(object streams.Object) []types.NamespacedName {
		<-time.After(takes)
		return []types.NamespacedName{{Namespace: object.GetNamespace(), Name: object.GetName()}}
	}
}

func TestAStartAmongManyObjectsIsNotSettledBeforeTheyAreReconciled(t *testing.T) {
	const many = 2000
	inLevelWorld(t, sourcestest.Options{}, controller.Options{}, func(w *levelWorld) {
		for i := range many {
			w.create(fmt.Sprint("x", i))
		}
		w.must(w.manager.Add("configs", w.noting, controller.For(&corev1.Secret{}), controller.Watches(&corev1.ConfigMap{}, slowly(time.Millisecond))))
		w.run()
		w.reach(cache.Settled, time.Minute)
		if w.count() != many {
			t.Errorf("when it is settled, %d of %d objects were reconciled", w.count(), many)
		}
	})
}

func TestNothingIsSettledWhileAMapFunctionIsAsked(t *testing.T) {
	inLevelWorld(t, sourcestest.Options{}, controller.Options{}, func(w *levelWorld) {
		w.must(w.manager.Add("configs", w.noting, controller.For(&corev1.Secret{}), controller.Watches(&corev1.ConfigMap{}, slowly(time.Minute))))
		w.run()
		w.reach(cache.Settled, time.Second)
		w.create("x")
		for range 59 {
			w.wait(time.Second)
			w.below(cache.Settled, "while a map function runs")
		}
		w.reach(cache.Settled, 20*time.Minute) // The loop duration is a minute.
		w.isTrue("when it is settled")
	})
}

// A later state waits for the end of the window, which is longer than the quiet period.
func TestNothingIsSettledWhileAnEventWaitsInItsWindow(t *testing.T) {
	inLevelWorld(t, sourcestest.Options{}, controller.Options{Window: 30 * time.Second}, func(w *levelWorld) {
		w.create("x")
		w.begin()
		w.reach(cache.Settled, time.Minute)
		for range 10 { // More than the burst that passes at once.
			w.change("x")
			w.wait(10 * time.Millisecond)
		}
		w.wait(time.Second)
		w.below(cache.Settled, "while a state waits")
		w.reach(cache.Settled, 10*time.Minute) // Ten loop durations of up to a window each.
		w.isTrue("when it is settled")
	})
}

func TestNothingIsSettledWhileAResultIsHandled(t *testing.T) {
	var handled func()
	options := controller.Options{OnResult: func(operators.Result) { handled() }}
	inLevelWorld(t, sourcestest.Options{}, options, func(w *levelWorld) {
		done := make(chan struct{})
		handled = func() { <-done }
		w.create("x")
		w.begin()
		w.wait(time.Minute)
		w.below(cache.Settled, "while a result is handled")
		close(done)
		w.reach(cache.Settled, 10*time.Minute)
	})
}

func TestNothingIsSettledWhileAControllerJoins(t *testing.T) {
	slow := sourcestest.Fault{Action: sourcestest.Slow, Verb: "list", Resource: "secrets", For: time.Minute}
	inLevelWorld(t, sourcestest.Options{Script: []sourcestest.Fault{slow}}, controller.Options{}, func(w *levelWorld) {
		w.begin()
		w.reach(cache.Settled, time.Second)
		joined := 0
		w.must(w.server.Create(secret("x")))
		w.must(w.manager.Add("secrets", func(context.Context, operators.Request) (time.Duration, error) {
			joined++
			return 0, nil
		}, controller.For(&corev1.Secret{})))
		w.wait(30 * time.Second)
		w.below(cache.Settled, "while a controller joins")
		w.reach(cache.Settled, time.Hour)
		if joined != 1 {
			t.Errorf("the controller has reconciled %d times at Settled, want once", joined)
		}
	})
}

// An event that repeats the version that the cache holds is no change.
func TestEventsThatRepeatWhatIsHeldDoNotEndTheCalm(t *testing.T) {
	again := sourcestest.Fault{Action: sourcestest.Duplicate, Times: sourcestest.Always}
	inLevelWorld(t, sourcestest.Options{Script: []sourcestest.Fault{again}}, controller.Options{}, func(w *levelWorld) {
		w.create("x")
		w.begin()
		w.reach(cache.Converged, time.Second)
		w.server.Heal()
		for range 100 { // A watch that lasts less than a second is followed by a list of the unchanged object.
			w.server.Compact()
			w.server.Break()
			w.wait(50 * time.Millisecond)
		}
		w.reach(cache.Settled, time.Minute)
		if w.count() != 1 {
			t.Errorf("there were %d attempts", w.count())
		}
	})
}

// failing returns a reconciler that fails for the object "bad" until mended is true.
func (w *levelWorld) failing(mended *atomic.Bool) operators.Reconciler {
	return func(ctx context.Context, request operators.Request) (time.Duration, error) {
		if request.Name == "bad" && !mended.Load() {
			return 0, errors.New("it is bad")
		}
		return w.noting(ctx, request)
	}
}

func TestAKeyThatKeepsFailingIsNamedBesideSettledAndHoldsUpConverged(t *testing.T) {
	inLevelWorld(t, sourcestest.Options{}, controller.Options{}, func(w *levelWorld) {
		var mended atomic.Bool
		w.create("good", "bad")
		w.must(w.manager.Add("configs", w.failing(&mended), controller.For(&corev1.ConfigMap{})))
		w.run()
		w.wait(60 * time.Millisecond) // The key has failed twice.
		w.below(cache.Settled, "after two failures")
		w.reach(cache.Settled, time.Minute)
		w.below(cache.Converged, "while a key fails")
		pending := w.manager.Cache().Pending(cache.Converged)
		if !slices.ContainsFunc(pending, func(line string) bool {
			return strings.Contains(line, "configs a/bad") && strings.Contains(line, "(failed 3 times, at last by an error") && !strings.Contains(line, "it is bad")
		}) {
			t.Errorf("pending is %q", pending)
		}
		if pending := w.manager.Cache().Pending(cache.Settled); len(pending) != 0 {
			t.Errorf("pending for Settled is %q", pending)
		}
		w.wait(30 * time.Minute)
		mended.Store(true)
		w.reach(cache.Converged, operators.DefaultBackoffMax*12/10)
	})
}

func TestATerminalErrorAndARequeueHoldUpConvergedAlone(t *testing.T) {
	for name, answer := range map[string]func() (time.Duration, error){
		"terminal error": func() (time.Duration, error) { return 0, operators.Terminal(errors.New("never")) },
		"requeue":        func() (time.Duration, error) { return time.Hour, nil },
	} {
		t.Run(name, func(t *testing.T) {
			inLevelWorld(t, sourcestest.Options{}, controller.Options{}, func(w *levelWorld) {
				w.create("x")
				content := true
				w.must(w.manager.Add("configs", func(context.Context, operators.Request) (time.Duration, error) {
					if content {
						return answer()
					}
					return 0, nil
				}, controller.For(&corev1.ConfigMap{})))
				w.run()
				w.reach(cache.Settled, time.Minute)
				w.wait(time.Minute)
				w.below(cache.Converged, "with a key that is not finished")
				content = false
				w.change("x")
				w.reach(cache.Converged, time.Minute)
			})
		})
	}
}

// The outage does not count as a loop, so the quiet period stays as short as before.
func TestAWriteInFlightWhenTheWatchWasLostForAnHourDoesNotLengthenTheCalm(t *testing.T) {
	inLevelWorld(t, sourcestest.Options{}, controller.Options{}, func(w *levelWorld) {
		w.create("x")
		wrote := false
		w.must(w.manager.Add("configs", func(ctx context.Context, request operators.Request) (time.Duration, error) {
			object, found := cached[*corev1.ConfigMap](w.manager.Client(), request.NamespacedName)
			if !found || object.Data["write"] == "" || wrote {
				return 0, nil
			}
			wrote = true
			w.must(w.server.Inject(sourcestest.Fault{Action: sourcestest.Disconnect, Verb: "watch", Times: sourcestest.Always},
				sourcestest.Fault{Action: sourcestest.Disconnect, Verb: "list", Times: sourcestest.Always}))
			w.server.Break()
			changed := object.DeepCopy()
			changed.Data["done"] = "yes"
			_, err := controller.Patch(ctx, w.manager.Client(), changed, controller.MergeFrom(object))
			return 0, err
		}, controller.For(&corev1.ConfigMap{})))
		w.run()
		w.reach(cache.Settled, time.Second)
		w.wait(time.Minute)
		object := config("x")
		object.Data = map[string]string{"write": "please"}
		w.must(w.server.Update(object))
		w.wait(time.Hour)
		w.server.Heal()
		w.reach(cache.Settled, 2*bound)
		if loop := w.manager.Cache().Loop().Duration(); loop > time.Second {
			t.Errorf("the loop duration is %v", loop)
		}
	})
}

func TestAStartThatWaitedAnHourForAKindDoesNotLengthenTheCalm(t *testing.T) {
	hang := sourcestest.Fault{Action: sourcestest.Hang, Verb: "list", Resource: "secrets", Times: sourcestest.Always}
	inLevelWorld(t, sourcestest.Options{Script: []sourcestest.Fault{hang}}, controller.Options{}, func(w *levelWorld) {
		w.create("x")
		w.must(w.manager.Add("both", w.noting, controller.For(&corev1.ConfigMap{}), controller.Owns(&corev1.Secret{})))
		w.run()
		w.wait(time.Hour)
		w.below(cache.Listed, "without a kind")
		if w.count() != 0 {
			t.Error("it reconciled before its kinds were current")
		}
		w.server.Heal()
		w.reach(cache.Settled, 2*bound)
		w.isTrue("when it is settled")
		if loop := w.manager.Cache().Loop().Duration(); loop > time.Second {
			t.Errorf("the loop duration is %v", loop)
		}
	})
}

func TestAnOwnWriteThatNoWatchTellsOfHoldsUpNothing(t *testing.T) {
	for name, written := range map[string]*corev1.ConfigMap{
		"outside the watched namespaces": {ObjectMeta: metav1.ObjectMeta{Namespace: "elsewhere", Name: "own"}},
		"hidden by a label selector":     {ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "own"}},
	} {
		t.Run(name, func(t *testing.T) {
			inLevelWorld(t, sourcestest.Options{}, controller.Options{Namespaces: []string{"a"}}, func(w *levelWorld) {
				w.must(w.manager.Add("configs", func(ctx context.Context, request operators.Request) (time.Duration, error) {
					if request.Name != "x" {
						return 0, nil
					}
					_, err := controller.Create(ctx, w.manager.Client(), written)
					return 0, err
				}, controller.For(&corev1.ConfigMap{}, controller.LabelSelector("app"))))
				w.run()
				w.reach(cache.Settled, time.Second)
				asked := config("x")
				asked.Labels = map[string]string{"app": "x"}
				w.must(w.server.Create(asked))
				w.wait(10 * time.Millisecond)
				w.reach(cache.Settled, bound)
				w.must(w.server.Delete(written))
				w.wait(2 * bound)
				name := types.NamespacedName{Namespace: written.Namespace, Name: written.Name}
				if object, found := w.manager.Cache().Stores()[0].Get(name); found {
					t.Errorf("the cache has %v, and it is deleted", object.GetName())
				}
				w.reach(cache.Converged, time.Second)
			})
		})
	}
}

// The map function is retried. Until it succeeds, its object counts as unfinished.
func TestAMapFunctionThatPanicsOnceLosesNoEvent(t *testing.T) {
	inLevelWorld(t, sourcestest.Options{}, controller.Options{}, func(w *levelWorld) {
		panics := 2
		concerned := func(object streams.Object) []types.NamespacedName {
			if panics > 0 {
				panics--
				panic("not now")
			}
			return []types.NamespacedName{{Namespace: object.GetNamespace(), Name: object.GetName()}}
		}
		w.must(w.manager.Add("configs", w.noting, controller.For(&corev1.Secret{}), controller.Watches(&corev1.ConfigMap{}, concerned)))
		w.run()
		w.create("x")
		w.reach(cache.Converged, time.Minute)
		w.isTrue("when it has converged")
		if panics != 0 || w.count() != 1 {
			t.Errorf("%d panics are left, and there were %d attempts", panics, w.count())
		}
	})
}

func TestAMapFunctionThatAlwaysPanicsHoldsUpConvergedAlone(t *testing.T) {
	inLevelWorld(t, sourcestest.Options{}, controller.Options{}, func(w *levelWorld) {
		broken := func(streams.Object) []types.NamespacedName { panic("never") }
		w.must(w.manager.Add("configs", w.noting, controller.For(&corev1.Secret{}), controller.Watches(&corev1.ConfigMap{}, broken)))
		w.run()
		w.create("x")
		w.wait(time.Millisecond)
		w.below(cache.Settled, "after the first failure")
		w.reach(cache.Settled, time.Minute)
		w.below(cache.Converged, "with a map function that fails")
		if pending := w.manager.Cache().Pending(cache.Converged); len(pending) != 1 {
			t.Errorf("pending is %q", pending)
		}
		w.must(w.manager.Remove(w.t.Context(), "configs"))
	})
}

// A cluster-scoped object owns a namespaced one.
func TestDriftOfANamespacedChildOfAClusterScopedOwnerAsksForTheOwner(t *testing.T) {
	inLevelWorld(t, sourcestest.Options{}, controller.Options{}, func(w *levelWorld) {
		asked := map[string]int{}
		w.must(w.server.Create(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "owner"}}))
		w.must(w.manager.Add("nodes", func(_ context.Context, request operators.Request) (time.Duration, error) {
			asked[request.NamespacedName.String()]++
			return 0, nil
		}, controller.For(&corev1.Node{}, controller.ClusterScoped()), controller.Owns(&corev1.ConfigMap{})))
		w.run()
		w.reach(cache.Settled, time.Second)
		owner := metav1.OwnerReference{APIVersion: "v1", Kind: "Node", Name: "owner", UID: "1", Controller: new(true)}
		child := config("child")
		child.OwnerReferences = []metav1.OwnerReference{owner}
		w.must(w.server.Create(child))
		w.wait(10 * time.Millisecond)
		w.reach(cache.Settled, time.Second)
		if fmt.Sprint(asked) != "map[/owner:2]" {
			t.Errorf("the attempts are %v, want two for the owner", asked)
		}
	})
}

// An empty first list is news: the kind is now known to have no objects. That ends the calm.
func TestAnEmptyFirstListIsFollowedByACalm(t *testing.T) {
	inLevelWorld(t, sourcestest.Options{}, controller.Options{}, func(w *levelWorld) {
		w.must(w.server.Uninstall(secret("")))
		w.must(w.manager.Add("secrets", nothing, controller.For(&corev1.Secret{})))
		w.begin()
		w.reach(cache.Settled, time.Second)
		w.must(w.server.Install(secret("")))
		w.must(w.manager.Cache().Wait(w.t.Context(), cache.Current, secretKind))
		w.reach(cache.Converged, time.Second)
	})
}

func TestAWriteThatIsAnsweredWithNonsenseIsAFailure(t *testing.T) {
	for _, answer := range []string{`{}`, `{"kind":"Status","apiVersion":"v1","status":"Success"}`} {
		inLevelWorld(t, sourcestest.Options{}, controller.Options{}, func(w *levelWorld) {
			w.begin()
			w.reach(cache.Settled, time.Second)
			w.must(w.server.Inject(sourcestest.Fault{Action: sourcestest.Answer, Verb: "create", Body: answer}))
			_, err := controller.Create(w.t.Context(), w.manager.Client(), config("x"))
			if err == nil || !strings.Contains(err.Error(), "cannot create ConfigMap a/x: the answer is not the object") {
				t.Errorf("the error of a creation answered with %s is %v", answer, err)
			}
		})
	}
}
