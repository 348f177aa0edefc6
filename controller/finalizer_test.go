package controller_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/cache"
	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/operators"
	"github.com/bellerophon-io/bellerophon/sources/sourcestest"
	"github.com/bellerophon-io/bellerophon/streams"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
)

const bucketFinalizer = "acme.io/bucket"

// buckets are outside of the cluster: one for each ConfigMap. Each must go with its ConfigMap.
type buckets struct {
	calls []string
	open  map[string]bool
}

// reconciler returns the reconciler of a manager.
func (b *buckets) reconciler(of *controller.Manager) operators.Reconciler {
	return controller.Typed(of.Client(), controller.TypedReconciler[*corev1.ConfigMap]{
		Reconcile: func(_ context.Context, config *corev1.ConfigMap) (controller.Result, error) {
			b.calls = append(b.calls, "reconcile "+config.Name)
			b.open[config.Name] = true
			return controller.Result{}, nil
		},
		Deleting: func(_ context.Context, config *corev1.ConfigMap) (controller.Result, error) {
			b.calls = append(b.calls, "deleting "+config.Name)
			return controller.Result{}, nil
		},
		Gone: func(_ context.Context, name types.NamespacedName) (controller.Result, error) {
			b.calls = append(b.calls, "gone "+name.Name)
			return controller.Result{}, nil
		},
	})
}

func (b *buckets) finalize(_ context.Context, config *corev1.ConfigMap) (time.Duration, error) {
	b.calls = append(b.calls, "finalize "+config.Name)
	delete(b.open, config.Name)
	return 0, nil
}

// finalizersOf returns the finalizers of a ConfigMap of the server, and whether it exists.
func (w *levelWorld) finalizersOf(name string) ([]string, bool) {
	object := config(name)
	err := w.server.Get(object)
	return object.Finalizers, err == nil
}

func TestAFinalizerIsAddedBeforeTheFirstReconcileAndRunsAtTheDeletion(t *testing.T) {
	inLevelWorld(t, sourcestest.Options{}, controller.Options{}, func(w *levelWorld) {
		w.create("x")
		b := &buckets{open: map[string]bool{}}
		first := func(ctx context.Context, request operators.Request) (time.Duration, error) {
			if finalizers, exists := w.finalizersOf(request.Name); exists && !slices.Contains(finalizers, bucketFinalizer) {
				t.Errorf("a reconcile begins with the finalizers %q on the server", finalizers)
			}
			return b.reconciler(w.manager)(ctx, request)
		}
		w.must(w.manager.Add("buckets", first, controller.For(&corev1.ConfigMap{}), controller.Finalizer(bucketFinalizer, b.finalize)))
		w.run()
		w.reach(cache.Converged, time.Minute)
		if !b.open["x"] {
			t.Error("the object was not reconciled")
		}
		b.calls = nil
		w.must(w.server.Delete(config("x")))
		w.wait(time.Second)
		w.reach(cache.Converged, time.Minute)
		if _, exists := w.finalizersOf("x"); exists || b.open["x"] {
			t.Errorf("after the deletion the object exists: %t, and its bucket: %t", exists, b.open["x"])
		}
		// The removal of the object asks for a last reconcile.
		if want := []string{"finalize x", "gone x"}; !slices.Equal(b.calls, want) {
			t.Errorf("the calls are %q, want %q", b.calls, want)
		}
	})
}

func TestAFinalizerThatIsNotDoneKeepsTheObject(t *testing.T) {
	inLevelWorld(t, sourcestest.Options{}, controller.Options{}, func(w *levelWorld) {
		w.create("x")
		var answers []func() (time.Duration, error)
		fails := errors.New("the bucket is not empty")
		for range 4 {
			answers = append(answers, func() (time.Duration, error) { return 0, fails })
		}
		answers = append(answers, func() (time.Duration, error) { return time.Minute, nil }, func() (time.Duration, error) { return 0, nil })
		var calls atomic.Int64
		w.must(w.manager.Add("buckets", nothing, controller.For(&corev1.ConfigMap{}),
			controller.Finalizer(bucketFinalizer, func(context.Context, *corev1.ConfigMap) (time.Duration, error) {
				return answers[min(int(calls.Add(1)), len(answers))-1]()
			})))
		w.run()
		w.reach(cache.Converged, time.Minute)
		w.must(w.server.Delete(config("x")))
		for w.wait(time.Millisecond); calls.Load() < 5; w.wait(10 * time.Millisecond) {
		}
		w.wait(30 * time.Second)
		if _, exists := w.finalizersOf("x"); !exists || calls.Load() != 5 {
			t.Errorf("while the clean-up is not done the object exists: %t, after %d calls", exists, calls.Load())
		}
		w.wait(31 * time.Second)
		if _, exists := w.finalizersOf("x"); exists || calls.Load() != 6 {
			t.Errorf("in the end the object exists: %t, after %d calls", exists, calls.Load())
		}
	})
}

// Another client adds and removes finalizers of its own all the time.
func TestAFinalizerLeavesThoseOfOthersAlone(t *testing.T) {
	inLevelWorld(t, sourcestest.Options{}, controller.Options{}, func(w *levelWorld) {
		theirs := config("x")
		theirs.Finalizers = []string{"other.io/one"}
		w.must(w.server.Create(theirs))
		w.must(w.manager.Add("buckets", nothing, controller.For(&corev1.ConfigMap{}),
			controller.Finalizer(bucketFinalizer, (&buckets{open: map[string]bool{}}).finalize),
			controller.Finalizer("acme.io/key", func(context.Context, *corev1.ConfigMap) (time.Duration, error) { return 0, nil })))
		w.run()
		w.reach(cache.Converged, time.Minute)
		if finalizers, _ := w.finalizersOf("x"); !slices.Equal(finalizers, []string{"other.io/one", bucketFinalizer, "acme.io/key"}) {
			t.Errorf("the finalizers are %q", finalizers)
		}
		w.must(w.server.Delete(config("x")))
		w.wait(time.Second)
		w.reach(cache.Converged, time.Minute)
		if finalizers, exists := w.finalizersOf("x"); !exists || !slices.Equal(finalizers, []string{"other.io/one"}) {
			t.Errorf("the finalizers are %q", finalizers)
		}
	})
}

// The manager stops after each of its first writes in turn: before the server has it, or before the
// answer comes. A new manager goes on from what is there. No bucket may outlive its object.
func TestAFinalizerSurvivesACrashBetweenAnyTwoWrites(t *testing.T) {
	for _, lost := range []sourcestest.Action{sourcestest.Disconnect, sourcestest.LoseAnswer} {
		for crash := range 4 {
			inLevelWorld(t, sourcestest.Options{}, controller.Options{}, func(w *levelWorld) {
				w.create("x")
				b := &buckets{open: map[string]bool{}}
				run := func(crash int) {
					ctx, cancel := context.WithCancel(w.t.Context())
					defer cancel()
					writes := 0
					manager, err := controller.NewManager(w.server.Config(), scheme.Scheme, controller.Options{OnError: func(error) {}, Grace: time.Millisecond,
						OnResult: func(result operators.Result) {
							if writes += len(result.Writes); result.Err != nil || writes > crash {
								cancel()
							}
						}})
					w.must(err)
					w.must(manager.Add("buckets", b.reconciler(manager), controller.For(&corev1.ConfigMap{}), controller.Finalizer(bucketFinalizer, b.finalize)))
					group := lifecycle.New(ctx)
					group.Go("manager", manager.Run)
					<-time.After(time.Minute)
					group.Stop()
					w.must(group.Wait())
				}
				w.must(w.server.Inject(sourcestest.Fault{Action: lost, Verb: "patch", Nth: crash/2 + 1}))
				run(crash)
				w.must(w.server.Delete(config("x")))
				run(crash)
				run(100)
				run(100)
				if _, exists := w.finalizersOf("x"); exists || len(b.open) > 0 {
					t.Errorf("%v at write %d: the object exists: %t, and its bucket: %t", lost, crash, exists, b.open["x"])
				}
				// The world of the test ends with a manager that runs.
				w.begin()
			})
		}
	}
}

// A ConfigMap needs its finalizer while its data says so, also when it is being deleted.
func TestAnObjectHasAConditionalFinalizerWhileItNeedsIt(t *testing.T) {
	inLevelWorld(t, sourcestest.Options{}, controller.Options{}, func(w *levelWorld) {
		theirs := config("x")
		theirs.Finalizers = []string{"other.io/one"}
		w.must(w.server.Create(theirs))
		calls := 0
		w.must(w.manager.Add("buckets", nothing, controller.For(&corev1.ConfigMap{}), controller.FinalizerIf(bucketFinalizer,
			func(object *corev1.ConfigMap) bool { return object.Data["bucket"] == "yes" },
			func(context.Context, *corev1.ConfigMap) (time.Duration, error) { calls++; return time.Hour, nil })))
		w.run()
		set := func(value string) {
			changed := config("x")
			w.must(w.server.Get(changed))
			changed.Data = map[string]string{"bucket": value}
			w.must(w.server.Update(changed))
		}
		for _, step := range []struct {
			what  string
			do    func()
			has   bool
			calls int
		}{
			{"at first", func() {}, false, 0},
			{"needed", func() { set("yes") }, true, 0},
			{"not needed any more", func() { set("no") }, false, 0},
			{"needed again", func() { set("yes") }, true, 0},
			{"deleted", func() { w.must(w.server.Delete(config("x"))) }, true, 1},
			{"not needed any more in the deletion", func() { set("no") }, false, 1},
			{"needed too late", func() { set("yes") }, false, 1},
		} {
			step.do()
			w.wait(time.Second)
			finalizers, _ := w.finalizersOf("x")
			if has := slices.Contains(finalizers, bucketFinalizer); has != step.has || calls != step.calls || !slices.Contains(finalizers, "other.io/one") {
				t.Errorf("%s: the finalizers are %q after %d calls", step.what, finalizers, calls)
			}
		}
	})
}

func TestAFinalizerThatDoesNotFitIsRefused(t *testing.T) {
	for want, options := range map[string][]controller.Option{
		`Finalizer has the name "bucket"; qualify it with a domain, such as acme.io/bucket`: {controller.Finalizer("bucket", (&buckets{}).finalize)},
		`Finalizer has the name "a b/c", which is not a qualified name`:                     {controller.Finalizer("a b/c", (&buckets{}).finalize)},
		`Finalizer acme.io/bucket is for *v1.Secret, and For names *v1.ConfigMap`: {
			controller.Finalizer(bucketFinalizer, func(context.Context, *corev1.Secret) (time.Duration, error) { return 0, nil })},
		`Finalizer acme.io/bucket is given twice`: {controller.Finalizer(bucketFinalizer, (&buckets{}).finalize), controller.Finalizer(bucketFinalizer, (&buckets{}).finalize)},
	} {
		m := manager(t, silent, controller.Options{})
		err := m.Add("buckets", nothing, append(options, controller.For(&corev1.ConfigMap{}))...)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %v, want one that contains %q", err, want)
		}
	}
}

func TestAnOwnerMustBeInTheNamespaceAndAlone(t *testing.T) {
	m := manager(t, silent, controller.Options{})
	if err := m.Add("configs", nothing, controller.For(&corev1.ConfigMap{}), controller.Uses(&corev1.Node{}, controller.ClusterScoped())); err != nil {
		t.Fatal(err)
	}
	owner, node, child := config("owner"), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "n-1"}}, secret("child")
	owner.UID = "o-1"
	set := func(owner, object streams.Object) error {
		return controller.SetControllerReference(m.Client(), owner, object)
	}
	for range 2 { // The second time changes nothing.
		if err := set(owner, child); err != nil || len(child.OwnerReferences) != 1 || !metav1.IsControlledBy(child, owner) || child.OwnerReferences[0].Kind != "ConfigMap" {
			t.Fatalf("the owners are %v: %v", child.OwnerReferences, err)
		}
	}
	if err := set(node, child); !errors.Is(err, controller.ErrOtherController) || len(child.OwnerReferences) != 1 {
		t.Errorf("another controller takes it over: %v", err)
	}
	if free := secret("free"); set(node, free) != nil || free.OwnerReferences[0].Kind != "Node" {
		t.Errorf("an owner without a namespace does not own: %v", free.OwnerReferences)
	}
	elsewhere := secret("x")
	elsewhere.Namespace = "b"
	for want, err := range map[string]error{
		"owns objects of its own namespace only": set(owner, elsewhere),
		"the owner has no uid":                   set(config("new"), secret("x")),
		"name it in For, Owns, Watches or Uses":  set(&corev1.Pod{}, secret("x")),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %v, want one that contains %q", err, want)
		}
	}
}

// The deletion changes neither labels nor generation.
func TestAFinalizerRunsWhateverThePredicateSays(t *testing.T) {
	inLevelWorld(t, sourcestest.Options{}, controller.Options{}, func(w *levelWorld) {
		w.create("x")
		b := &buckets{open: map[string]bool{}}
		w.must(w.manager.Add("buckets", b.reconciler(w.manager), controller.For(&corev1.ConfigMap{}, controller.When(controller.LabelsChanged)), controller.Finalizer(bucketFinalizer, b.finalize)))
		w.run()
		w.wait(time.Minute)
		w.must(w.server.Delete(config("x")))
		w.wait(time.Minute)
		if _, exists := w.finalizersOf("x"); exists || b.open["x"] {
			t.Errorf("a minute after the deletion the object exists: %t; the calls are %q", exists, b.calls)
		}
	})
}

func TestAnObjectWhoseLastFinalizerWasRemovedIsNotRead(t *testing.T) {
	inLevelWorld(t, sourcestest.Options{}, controller.Options{}, func(w *levelWorld) {
		held := config("x")
		held.Finalizers = []string{"acme.io/held"}
		w.must(w.server.Create(held))
		w.begin()
		w.reach(cache.Settled, time.Second)
		name := types.NamespacedName{Namespace: "a", Name: "x"}
		w.must(controller.Delete(w.t.Context(), w.manager.Client(), config("x")))
		leaving, err := controller.Get[*corev1.ConfigMap](w.t.Context(), w.manager.Client(), name)
		w.must(err)
		free := leaving.DeepCopy()
		free.Finalizers = nil
		_, err = controller.Update(w.t.Context(), w.manager.Client(), free)
		w.must(err)
		if found, err := controller.Get[*corev1.ConfigMap](w.t.Context(), w.manager.Client(), name); !apierrors.IsNotFound(err) {
			t.Errorf("the next read finds %v: %v", found, err)
		}
		w.wait(time.Second)
		w.reach(cache.Converged, time.Second)
	})
}
