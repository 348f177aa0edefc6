package controller_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/cache"
	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/operators"
	"github.com/bellerophon-io/bellerophon/sources"
	"github.com/bellerophon-io/bellerophon/sources/sourcestest"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

var sheep = schema.GroupVersionKind{Group: "example.org", Version: "v1", Kind: "Sheep"}

// flock serves sheep under a plural that no rule makes.
func flock(unscoped bool) sourcestest.Options {
	return sourcestest.Options{Kinds: []sourcestest.Kind{{GroupVersionKind: sheep, Resource: "flocks", ClusterScoped: unscoped}}}
}

func oneSheep(namespace, name string) *unstructured.Unstructured {
	made := &unstructured.Unstructured{}
	made.SetGroupVersionKind(sheep)
	made.SetNamespace(namespace)
	made.SetName(name)
	return made
}

func TestAPluralAndAScopeNeedNoOption(t *testing.T) {
	for _, namespace := range []string{"", "a"} {
		inLevelWorld(t, flock(namespace == ""), controller.Options{}, func(w *levelWorld) {
			asked := map[string]int{}
			w.must(w.server.Create(oneSheep(namespace, "dolly")))
			w.must(w.manager.Add("sheep", func(_ context.Context, request operators.Request) (time.Duration, error) {
				asked[request.NamespacedName.String()]++
				return 0, nil
			}, controller.For(&unstructured.Unstructured{}, controller.OfKind(sheep)), controller.Owns(&corev1.ConfigMap{})))
			w.run()
			w.reach(cache.Settled, time.Second)
			dolly := types.NamespacedName{Namespace: namespace, Name: "dolly"}
			child := config("child")
			child.OwnerReferences = []metav1.OwnerReference{{APIVersion: "example.org/v1", Kind: "Sheep", Name: "dolly", UID: "1", Controller: new(true)}}
			w.must(w.server.Create(child))
			w.wait(10 * time.Millisecond)
			w.reach(cache.Settled, time.Second)
			if want := fmt.Sprintf("map[%s:2]", dolly); fmt.Sprint(asked) != want {
				t.Errorf("the attempts are %v, want %s", asked, want)
			}
			made, err := controller.Create(w.t.Context(), w.manager.Client(), oneSheep(namespace, "shaun"))
			w.must(err)
			w.must(controller.Delete(w.t.Context(), w.manager.Client(), made))
		})
	}
}

func TestAKindThatIsOnlyUsedNeedsNoOption(t *testing.T) {
	for _, namespace := range []string{"", "a"} {
		inLevelWorld(t, flock(namespace == ""), controller.Options{}, func(w *levelWorld) {
			w.must(w.manager.Add("configs", nothing, controller.For(&corev1.ConfigMap{}),
				controller.Uses(&unstructured.Unstructured{}, controller.OfKind(sheep))))
			_, err := controller.Create(w.t.Context(), w.manager.Client(), oneSheep(namespace, "dolly"))
			w.must(err)
			list, err := controller.List[*unstructured.Unstructured](w.t.Context(), w.manager.Client(), controller.OfKind(sheep))
			w.must(err)
			if len(list) != 1 || list[0].GetName() != "dolly" {
				t.Errorf("listed %v", list)
			}
		})
	}
}

// A child whose owner does not exist asks for it. While no object of the owner's kind was seen, only
// discovery shows that the owner would have no namespace.
func TestAChildOfAMissingClusterScopedOwnerAsksForNothing(t *testing.T) {
	inLevelWorld(t, flock(true), controller.Options{}, func(w *levelWorld) {
		asked := map[string]int{}
		orphan := config("orphan")
		orphan.OwnerReferences = []metav1.OwnerReference{{APIVersion: "example.org/v1", Kind: "Sheep", Name: "dolly", UID: "1", Controller: new(true)}}
		w.must(w.server.Create(orphan))
		w.must(w.manager.Add("sheep", func(_ context.Context, request operators.Request) (time.Duration, error) {
			asked[request.NamespacedName.String()]++
			return 0, nil
		}, controller.For(&unstructured.Unstructured{}, controller.OfKind(sheep)), controller.Owns(&corev1.ConfigMap{})))
		w.run()
		w.reach(cache.Settled, time.Second)
		for name := range asked {
			if name != "/dolly" {
				t.Errorf("the attempts are %v, want none with a namespace", asked)
			}
		}
	})
}

func TestAVersionThatIsNotServedIsNamedWithThoseWhichAre(t *testing.T) {
	inLevelWorld(t, flock(false), controller.Options{}, func(w *levelWorld) {
		old := sheep
		old.Version = "v1alpha1"
		w.must(w.manager.Add("sheep", nothing, controller.For(&unstructured.Unstructured{}, controller.OfKind(old))))
		w.run()
		w.wait(time.Second)
		failures := w.failed
		if len(failures) == 0 || !errors.Is(failures[0], sources.ErrNotServed) ||
			!strings.Contains(failures[0].Error(), "example.org/v1alpha1, Kind=Sheep; the group has v1") {
			t.Errorf("the failures are %v", failures)
		}
	})
}
