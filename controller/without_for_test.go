package controller_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/cache"
	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/operators"
	"github.com/bellerophon-io/bellerophon/sources"
	"github.com/bellerophon-io/bellerophon/sources/sourcestest"
	"github.com/bellerophon-io/bellerophon/streams"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// noted records the names of requests.
type noted struct{ names []string }

func (n *noted) reconcile(_ context.Context, request operators.Request) (time.Duration, error) {
	n.names = append(n.names, request.Namespace+"/"+request.Name)
	return 0, nil
}

// teamOf maps a config map to its team, which is no object.
func teamOf(object streams.Object) []types.NamespacedName {
	return []types.NamespacedName{{Name: "team " + object.GetNamespace()}}
}

func TestAControllerWithoutForGetsTheRequestsOfItsMapFunctionsAndStreams(t *testing.T) {
	inLevelWorld(t, sourcestest.Options{}, controller.Options{}, func(w *levelWorld) {
		w.create("x", "y")
		ticks := streams.MapOnReceive(sources.Interval(time.Hour), func(ticks []time.Time) ([]types.NamespacedName, error) {
			return []types.NamespacedName{{Name: "tick"}}, nil
		})
		teams, late := &noted{}, &noted{}
		w.must(w.manager.Add("teams", teams.reconcile, controller.Watches(&corev1.ConfigMap{}, teamOf), controller.From("ticks", ticks)))
		w.run()
		w.reach(cache.Converged, time.Minute)
		if !slices.Equal(teams.names, []string{"/team a"}) {
			t.Errorf("at first the requests are %q", teams.names)
		}
		w.must(w.manager.Add("late", late.reconcile, controller.Watches(&corev1.ConfigMap{}, nil, controller.MapChange(
			func(_ context.Context, _ *controller.Client, change controller.ChangeOf[*corev1.ConfigMap]) []types.NamespacedName {
				return []types.NamespacedName{{Name: change.New.Name}}
			}))))
		w.wait(time.Minute)
		w.change("x")
		w.wait(time.Hour)
		slices.Sort(late.names)
		if !slices.Equal(teams.names, []string{"/team a", "/team a", "/tick"}) || !slices.Equal(late.names, []string{"/x", "/x", "/y"}) {
			t.Errorf("in the end the requests are %q and %q", teams.names, late.names)
		}
		w.must(w.manager.Remove(w.t.Context(), "teams"))
		w.must(w.manager.Remove(w.t.Context(), "late"))
	})
}

func TestAControllerWithoutKindsIsReadyAndRunsAtOnce(t *testing.T) {
	inLevelWorld(t, sourcestest.Options{}, controller.Options{}, func(w *levelWorld) {
		only := &noted{}
		w.must(w.manager.Add("only", only.reconcile, controller.From("names", streams.Of(types.NamespacedName{Name: "one"}))))
		w.run()
		w.wait(time.Second)
		if !slices.Equal(only.names, []string{"/one"}) {
			t.Errorf("the requests are %q", only.names)
		}
		later := &noted{}
		w.must(w.manager.Add("later", later.reconcile, controller.From("names", streams.Of(types.NamespacedName{Name: "two"}))))
		w.wait(time.Second)
		if !slices.Equal(later.names, []string{"/two"}) {
			t.Errorf("the requests of the controller that was added later are %q", later.names)
		}
	})
}

func TestAControllerThatWouldNeverBeCalledIsRefused(t *testing.T) {
	finalize := func(context.Context, *corev1.Pod) (time.Duration, error) { return 0, nil }
	watches := controller.Watches(&corev1.Pod{}, teamOf)
	for want, options := range map[string][]controller.Option{
		"it has no For, Watches or From":  {controller.Uses(&corev1.Pod{})},
		"the *v1.Pod of Owns":             {controller.Owns(&corev1.Pod{})},
		"or of Watches without a map":     {controller.Watches(&corev1.Pod{}, nil)},
		"Finalizer needs the objects":     {watches, controller.Finalizer("acme.io/x", finalize)},
		"PausedBy needs the objects":      {watches, controller.PausedBy("acme.io/paused")},
		"Resync needs the objects":        {watches, controller.Resync(time.Hour)},
		"IfServed needs the objects":      {controller.From("x", streams.Of[types.NamespacedName]()), controller.IfServed()},
		"ReconcileBeforeSync is given":    {controller.Watches(&corev1.Pod{}, teamOf, controller.ReconcileBeforeSync(func(*corev1.Pod) bool { return true }, ""))},
		"From has no name; give one":      {controller.From("", streams.Of[types.NamespacedName]())},
		"option 1 is nil; leave it out":   {nil},
		"OnDemand is given for the *v1.P": {controller.For(&corev1.Pod{}, controller.OnDemand())},
	} {
		if err := manager(t, silent, controller.Options{}).Add("x", nothing, options...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %v, want %q in it", err, want)
		}
	}
}

func TestAKindMayBeDeclaredWhileTheManagerRuns(t *testing.T) {
	inLevelWorld(t, sourcestest.Options{}, controller.Options{}, func(w *levelWorld) {
		w.begin()
		w.reach(cache.Converged, time.Minute)
		c := w.manager.Client()
		if _, err := controller.Create(w.t.Context(), c, secret("s")); !errors.Is(err, controller.ErrNotDeclared) {
			t.Errorf("before the declaration a write returns %v", err)
		}
		w.must(w.manager.Uses(&corev1.Secret{}))
		w.must(w.manager.Uses(&corev1.Secret{}))
		if _, err := controller.Create(w.t.Context(), c, secret("s")); err != nil {
			t.Errorf("after the declaration a write returns %v", err)
		}
		w.must(w.server.Delete(secret("s")))
		if _, err := controller.Get[*corev1.Secret](w.t.Context(), c, object("s")); controller.IgnoreNotFound(err) != nil || err == nil {
			t.Errorf("a read is not live: %v", err)
		}
		// A controller that watches the kind comes and goes.
		w.must(w.manager.Add("secrets", nothing, controller.For(&corev1.Secret{})))
		w.wait(time.Minute)
		w.must(w.manager.Remove(w.t.Context(), "secrets"))
		w.must(w.server.Create(secret("t")))
		if _, err := controller.Get[*corev1.Secret](w.t.Context(), c, object("t")); err != nil {
			t.Errorf("after the controller a read returns %v", err)
		}
		if err := w.manager.Uses(&controller.Metadata[corev1.Secret]{}); err == nil || !strings.Contains(err.Error(), "declaring a kind: Uses of Secret: give an object of the API type") {
			t.Errorf("for metadata the error is %v", err)
		}
	})
}
