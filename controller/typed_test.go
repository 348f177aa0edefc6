package controller_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/cache"
	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/sources/sourcestest"
	"github.com/bellerophon-io/bellerophon/streams"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func TestATypedReconcilerGetsTheObjectThatIsThereIsDeletedOrIsGone(t *testing.T) {
	inLevelWorld(t, sourcestest.Options{}, controller.Options{}, func(w *levelWorld) {
		held := config("x")
		held.Finalizers = []string{"other.io/hold"}
		w.must(w.server.Create(held))
		var calls []string
		w.must(w.manager.Add("typed", controller.Typed(w.manager.Client(), controller.TypedReconciler[*corev1.ConfigMap]{
			Reconcile: func(_ context.Context, object *corev1.ConfigMap) (controller.Result, error) {
				calls = append(calls, "reconcile "+object.Name)
				return controller.Result{RequeueAfter: time.Hour}, nil
			},
			Deleting: func(_ context.Context, object *corev1.ConfigMap) (controller.Result, error) {
				calls = append(calls, "deleting "+object.Name)
				return controller.Result{}, nil
			},
			Gone: func(_ context.Context, name types.NamespacedName) (controller.Result, error) {
				calls = append(calls, "gone "+name.String())
				return controller.Result{}, nil
			},
		}), controller.For(&corev1.ConfigMap{})))
		w.run()
		w.reach(cache.Settled, time.Minute)
		w.must(w.server.Delete(config("x")))
		w.wait(time.Second)
		w.reach(cache.Settled, time.Minute)
		held = config("x")
		w.must(w.server.Get(held))
		held.Finalizers = nil
		w.must(w.server.Update(held))
		w.wait(time.Second)
		w.reach(cache.Converged, time.Minute)
		if want := []string{"reconcile x", "deleting x", "gone a/x"}; !slices.Equal(calls, want) {
			t.Errorf("the calls are %q, want %q", calls, want)
		}
	})
}

func TestARequeueIsSoonAndOfTwoTheEarlierOneCounts(t *testing.T) {
	for result, want := range map[controller.Result]time.Duration{
		{Requeue: true}:                                 controller.RequeueSoon,
		{Requeue: true, RequeueAfter: time.Hour}:        controller.RequeueSoon,
		{Requeue: true, RequeueAfter: time.Millisecond}: time.Millisecond,
		{RequeueAfter: time.Hour}:                       time.Hour,
	} {
		inLevelWorld(t, sourcestest.Options{}, controller.Options{}, func(w *levelWorld) {
			w.create("x")
			var at []time.Time
			w.must(w.manager.Add("typed", controller.Typed(w.manager.Client(), controller.TypedReconciler[*corev1.ConfigMap]{
				Reconcile: func(context.Context, *corev1.ConfigMap) (controller.Result, error) {
					if at = append(at, time.Now()); len(at) > 1 {
						return controller.Result{}, nil
					}
					return result, nil
				},
			}), controller.For(&corev1.ConfigMap{})))
			w.run()
			w.wait(2 * time.Hour)
			if len(at) != 2 || at[1].Sub(at[0]) != want {
				t.Errorf("%+v: the calls are at %v, want %v apart", result, at, want)
			}
		})
	}
}

func TestPredicatesSelectChanges(t *testing.T) {
	state := func(version string, generation int64, labels, annotations string) *corev1.ConfigMap {
		made := config("x")
		made.ResourceVersion, made.Generation = version, generation
		made.Labels, made.Annotations = map[string]string{"l": labels}, map[string]string{"a": annotations}
		return made
	}
	base := state("1", 1, "1", "1")
	isRed := controller.PredicateOf(func(_, after *corev1.ConfigMap) bool { return after != nil && after.Labels["l"] == "red" })
	predicates := []struct {
		name      string
		predicate controller.Predicate
	}{
		{"generation", controller.GenerationChanged}, {"labels", controller.LabelsChanged}, {"annotations", controller.AnnotationsChanged},
		{"version", controller.ResourceVersionChanged}, {"red", isRed},
		{"any", controller.AnyOf(controller.GenerationChanged, isRed)}, {"none", controller.NoneOf(controller.GenerationChanged, isRed)},
	}
	for what, test := range map[string]struct {
		change streams.Change
		want   string
	}{
		"an addition":         {streams.Change{Type: streams.Added, New: base}, "[generation labels annotations version any]"},
		"a removal":           {streams.Change{Type: streams.Removed, Old: base}, "[generation labels annotations version any]"},
		"a change of status":  {streams.Change{Type: streams.Updated, Old: base, New: state("2", 1, "1", "1")}, "[version none]"},
		"a change of spec":    {streams.Change{Type: streams.Updated, Old: base, New: state("2", 2, "1", "1")}, "[generation version any]"},
		"a label":             {streams.Change{Type: streams.Updated, Old: base, New: state("2", 1, "red", "1")}, "[labels version red any]"},
		"an annotation":       {streams.Change{Type: streams.Updated, Old: base, New: state("2", 1, "1", "2")}, "[annotations version none]"},
		"a repetition":        {streams.Change{Type: streams.Unchanged, Old: base, New: base}, "[none]"},
		"an event of nothing": {streams.Change{Type: streams.Unchanged}, "[none]"},
		"another type":        {streams.Change{Type: streams.Added, New: &metav1.PartialObjectMetadata{}}, "[generation labels annotations version any]"},
	} {
		got := []string{}
		for _, one := range predicates {
			if one.predicate(test.change) {
				got = append(got, one.name)
			}
		}
		if fmt.Sprint(got) != test.want {
			t.Errorf("for %s these are true: %v, want %s", what, got, test.want)
		}
	}
}

func TestAResyncRequestsAllObjectsAgain(t *testing.T) {
	inLevelWorld(t, sourcestest.Options{}, controller.Options{}, func(w *levelWorld) {
		w.create("x", "y")
		w.must(w.manager.Add("configs", w.noting, controller.For(&corev1.ConfigMap{}), controller.Resync(10*time.Minute)))
		w.run()
		w.wait(35 * time.Minute)
		if w.attempts != 8 {
			t.Errorf("there were %d attempts for two objects, want one each at first and at each of three ticks", w.attempts)
		}
		w.reach(cache.Converged, time.Minute)
		for _, wrong := range []time.Duration{0, time.Millisecond, 9000 * time.Hour} {
			if err := w.manager.Add("wrong", nothing, controller.For(&corev1.ConfigMap{}), controller.Resync(wrong)); err == nil || !strings.Contains(err.Error(), "allowed is 1s to 8760h") {
				t.Errorf("a Resync of %v returns %v", wrong, err)
			}
		}
	})
}

// The map function looks up in the cache which ConfigMaps mention the Secret.
func TestAMapFunctionGetsATypedObjectAndTheClient(t *testing.T) {
	inLevelWorld(t, sourcestest.Options{}, controller.Options{}, func(w *levelWorld) {
		for _, name := range []string{"x", "y", "z"} {
			object := config(name)
			object.Labels = map[string]string{"secret": map[string]string{"x": "s", "y": "s", "z": "t"}[name]}
			w.must(w.server.Create(object))
		}
		mentions := controller.Map(w.manager.Client(), func(ctx context.Context, c *controller.Client, secret *corev1.Secret) (names []types.NamespacedName) {
			if ctx.Err() != nil {
				t.Error("the context has ended")
			}
			for _, object := range listed[*corev1.ConfigMap](c, controller.InNamespace(secret.Namespace), controller.LabelSelector("secret="+secret.Name)) {
				names = append(names, types.NamespacedName{Namespace: object.Namespace, Name: object.Name})
			}
			return names
		})
		w.must(w.manager.Add("configs", w.noting, controller.For(&corev1.ConfigMap{}), controller.Watches(&corev1.Secret{}, mentions)))
		w.run()
		w.wait(time.Minute)
		before := w.attempts
		w.must(w.server.Create(secret("s")))
		w.wait(time.Minute)
		if got := w.attempts - before; got != 2 {
			t.Errorf("%d objects were reconciled for the Secret, want 2", got)
		}
	})
}
