package controller_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/cache"
	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/internal/localcluster/clustertest"
	"github.com/bellerophon-io/bellerophon/operators"
	"github.com/bellerophon-io/bellerophon/sources/sourcestest"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
)

func node(name string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"for": "x"}}}
}

// configsOf maps each node to one ConfigMap.
func configsOf(_ context.Context, _ *controller.Client, _ controller.ChangeOf[*corev1.Node]) []types.NamespacedName {
	return []types.NamespacedName{{Namespace: "a", Name: "x"}}
}

func TestAKindWithoutNamespacesIsWatchedInTheWholeCluster(t *testing.T) {
	limited := controller.Options{Namespaces: []string{"a", "b"}}
	of := controller.OfKind(sheep)
	for what, test := range map[string]struct {
		options controller.Options
		roles   []controller.Option
		want    string // the attempts at the start, and after a new sheep
	}{
		"For": {limited, []controller.Option{controller.For(blank(sheep), of)}, "map[/dolly:1] map[/dolly:1 /shaun:1]"},
		"For with namespaces of its own": {
			controller.Options{}, []controller.Option{controller.For(blank(sheep), of, controller.Namespaces("a", "b"))}, "map[/dolly:1] map[/dolly:1 /shaun:1]",
		},
		"Watches": {limited, []controller.Option{controller.For(&corev1.ConfigMap{}), controller.Watches(blank(sheep), nil, of, controller.MapChange(
			func(context.Context, *controller.Client, controller.ChangeOf[*unstructured.Unstructured]) []types.NamespacedName {
				return []types.NamespacedName{{Namespace: "b", Name: "x"}}
			}))}, "map[b/x:1] map[b/x:2]"},
		"For with children in namespaces": {limited, []controller.Option{controller.For(blank(sheep), of), controller.Owns(&corev1.ConfigMap{})},
			"map[/dolly:1] map[/dolly:1 /shaun:1]"},
	} {
		t.Run(what, func(t *testing.T) {
			inLevelWorld(t, flock(true), test.options, func(w *levelWorld) {
				asked := map[string]int{}
				reconcile := func(_ context.Context, request operators.Request) (time.Duration, error) {
					w.mu.Lock()
					defer w.mu.Unlock()
					asked[request.NamespacedName.String()]++
					return 0, nil
				}
				w.must(w.server.Create(oneSheep("", "dolly")))
				w.must(w.manager.Add("sheep", reconcile, test.roles...))
				w.run()
				w.reach(cache.Converged, time.Minute)
				attempts := func() string {
					w.mu.Lock()
					defer w.mu.Unlock()
					return fmt.Sprint(asked)
				}
				before, c := attempts(), w.manager.Client()
				name := types.NamespacedName{Name: "shaun"}
				made, err := controller.Create(w.t.Context(), c, oneSheep("", "shaun"))
				w.must(err)
				if _, err := controller.Get[*unstructured.Unstructured](w.t.Context(), c, name, of); err != nil {
					t.Errorf("an own creation is not visible: %v", err)
				}
				w.wait(time.Minute)
				w.reach(cache.Converged, time.Minute)
				if got := before + " " + attempts(); got != test.want {
					t.Errorf("the attempts are %s, want %s", got, test.want)
				}
				w.must(controller.Delete(w.t.Context(), c, made))
				w.wait(time.Minute)
				w.reach(cache.Converged, time.Minute)
				if list, err := controller.List[*unstructured.Unstructured](w.t.Context(), c, of); err != nil || len(list) != 1 {
					t.Errorf("in the end it lists %v and returns %v", list, err)
				}
				if len(w.failed) > 0 {
					t.Errorf("it reports %v", w.failed)
				}
			})
		})
	}
}

// The plural of a node is regular, so that only the scope is wrong at first.
func TestNodesAreWatchedInTheWholeClusterWhateverTheNamespaces(t *testing.T) {
	inLevelWorld(t, sourcestest.Options{}, controller.Options{Namespaces: []string{"a", "b", "c"}}, func(w *levelWorld) {
		w.must(w.server.Create(node("n")))
		w.create("x")
		w.must(w.manager.Add("configs", w.noting, controller.For(&corev1.ConfigMap{}), controller.Watches(&corev1.Node{}, nil, controller.MapChange(configsOf))))
		w.run()
		w.reach(cache.Converged, time.Minute)
		before := w.count()
		changed := node("n")
		changed.Labels["for"] = "y"
		w.must(w.server.Update(changed))
		w.wait(time.Minute)
		if nodes := listed[*corev1.Node](w.manager.Client()); len(nodes) != 1 || nodes[0].Labels["for"] != "y" || w.count() != before+1 {
			t.Errorf("after a change the nodes are %v, and there were %d attempts", nodes, w.count()-before)
		}
		// A controller that comes later shares the watch.
		w.must(w.manager.Add("later", nothing, controller.For(&corev1.Node{})))
		w.wait(time.Minute)
		w.reach(cache.Converged, time.Minute)
		w.must(w.manager.Remove(w.t.Context(), "configs"))
		w.must(w.manager.Remove(w.t.Context(), "later"))
		// A watch that begins again knows the scope, or finds it again.
		w.must(w.manager.Add("again", nothing, controller.For(&corev1.Node{})))
		w.wait(time.Minute)
		w.reach(cache.Converged, time.Minute)
		if len(w.failed) > 0 {
			t.Errorf("it reports %v", w.failed)
		}
	})
}

// The lists of namespaces that the kind does not have count for nothing, and neither does their end.
func TestNoLevelIsClaimedBeforeTheListOfTheWholeCluster(t *testing.T) {
	options := flock(true)
	options.Script = []sourcestest.Fault{{Action: sourcestest.Slow, Resource: "flocks", Verb: "list", Times: sourcestest.Always, For: time.Minute}}
	inLevelWorld(t, options, controller.Options{Namespaces: []string{"a", "b"}}, func(w *levelWorld) {
		w.must(w.server.Create(oneSheep("", "dolly")))
		w.must(w.manager.Add("sheep", nothing, controller.For(blank(sheep), controller.OfKind(sheep)), controller.Owns(&corev1.ConfigMap{})))
		w.run()
		c := w.manager.Client()
		_, err := controller.Create(w.t.Context(), c, oneSheep("", "shaun"))
		w.must(err)
		has := func(when string, names ...string) {
			t.Helper()
			for _, name := range names {
				if _, err := controller.Get[*unstructured.Unstructured](w.t.Context(), c, types.NamespacedName{Name: name}, controller.OfKind(sheep)); err != nil {
					t.Errorf("%s: %v", when, err)
				}
			}
		}
		for range 5 {
			w.wait(10 * time.Second)
			if level := w.level(); level != cache.Starting {
				t.Errorf("before the list the level is %v", level)
			}
			has("before the list an own creation is not visible", "shaun")
		}
		w.reach(cache.Converged, 2*time.Minute)
		has("after the list", "shaun", "dolly")
	})
}

// Discovery is needed only if the server does not know the path. Here it knows the path of one namespace, as
// the kind has namespaces.
func TestAKindWithNamespacesIsStillWatchedInThemAlone(t *testing.T) {
	inLevelWorld(t, flock(false), controller.Options{Namespaces: []string{"a", "b"}}, func(w *levelWorld) {
		for _, namespace := range []string{"a", "b", "c"} {
			w.must(w.server.Create(oneSheep(namespace, "dolly")))
		}
		w.must(w.manager.Add("sheep", nothing, controller.For(blank(sheep), controller.OfKind(sheep))))
		w.run()
		w.reach(cache.Converged, time.Minute)
		list, err := controller.List[*unstructured.Unstructured](w.t.Context(), w.manager.Client(), controller.OfKind(sheep))
		if err != nil || len(list) != 2 {
			t.Errorf("it lists %v and returns %v", list, err)
		}
	})
}

func TestARealAPIServerShowsWhichKindsHaveNoNamespaces(t *testing.T) {
	namespace := clustertest.Namespace(t)
	config := clustertest.Shared(t).AdminConfig()
	var mu sync.Mutex
	var failed []error
	asked := make(chan string, 1000)
	m, err := controller.NewManager(config, scheme.Scheme, controller.Options{
		Namespaces: []string{namespace, "default"}, Logger: slog.New(slog.DiscardHandler),
		OnError: func(err error) {
			mu.Lock()
			defer mu.Unlock()
			failed = append(failed, err)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	reconcile := func(_ context.Context, request operators.Request) (time.Duration, error) {
		asked <- request.NamespacedName.String()
		return 0, nil
	}
	if err := m.Add("namespaces", reconcile, controller.For(&corev1.Namespace{}), controller.Owns(&corev1.ConfigMap{}),
		controller.Owns(&corev1.Node{}), controller.Owns(blank(rbacv1.SchemeGroupVersion.WithKind("ClusterRole")))); err != nil {
		t.Fatal(err)
	}
	group := lifecycle.New(t.Context())
	group.Go("manager", m.Run)
	defer func() {
		group.Stop()
		if err := group.Wait(); err != nil {
			t.Error(err)
		}
	}()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := m.Cache().Wait(ctx, cache.OwnWritesVisible); err != nil {
		mu.Lock()
		defer mu.Unlock()
		t.Fatalf("%v: it waits for %q, and reports %v", err, m.Cache().Pending(cache.OwnWritesVisible), failed)
	}
	for name := ""; name != "/"+namespace; {
		select {
		case name = <-asked:
		case <-ctx.Done():
			t.Fatal("the namespace is not requested")
		}
	}
	if roles, err := controller.List[*unstructured.Unstructured](ctx, m.Client(), controller.OfKind(rbacv1.SchemeGroupVersion.WithKind("ClusterRole"))); err != nil || len(roles) == 0 {
		t.Errorf("it lists %d roles and returns %v", len(roles), err)
	}
	if namespaces := listed[*corev1.Namespace](m.Client()); len(namespaces) < 2 {
		t.Errorf("the cache has %d namespaces", len(namespaces))
	}
	for _, config := range listed[*corev1.ConfigMap](m.Client()) {
		if config.Namespace != namespace && config.Namespace != "default" {
			t.Errorf("the cache has a ConfigMap of %s", config.Namespace)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if len(failed) > 0 {
		t.Errorf("it reports %v", failed)
	}
}
