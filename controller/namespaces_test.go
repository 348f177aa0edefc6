package controller_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/bellerophon-io/bellerophon/cache"
	"github.com/bellerophon-io/bellerophon/controller"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
)

func TestAReadOutsideOfTheNamespacesThatAreWatchedIsAnErrorThatNamesThem(t *testing.T) {
	m := manager(t, silent, controller.Options{Namespaces: []string{"a", "b"}})
	if err := m.Add("pods", nothing, controller.For(&corev1.Pod{}),
		controller.Owns(&corev1.Secret{}, controller.Namespaces("s")), controller.Owns(&corev1.Node{}, controller.ClusterScoped())); err != nil {
		t.Fatal(err)
	}
	c, in := m.Client(), func(namespace string) types.NamespacedName {
		return types.NamespacedName{Namespace: namespace, Name: "x"}
	}
	for read, test := range map[string]struct {
		err     error
		watched string
	}{
		"Get":              {second(controller.Get[*corev1.Pod](t.Context(), c, in("c"))), "c is not one of a, b"},
		"Get of a Secret":  {second(controller.Get[*corev1.Secret](t.Context(), c, in("a"))), "a is not one of s"},
		"List":             {second(controller.List[*corev1.Pod](t.Context(), c, controller.InNamespace("c"))), "c is not one of a, b"},
		"List by a field":  {second(controller.List[*corev1.Pod](t.Context(), c, controller.FieldSelector("metadata.namespace=c"))), "c is not one of a, b"},
		"List by an index": {second(controller.List[*corev1.Pod](t.Context(), c, controller.InIndex(cache.OwnerIndex, "x"), controller.InNamespace("c"))), "c is not one of a, b"},
		"List of a Secret": {second(controller.List[*corev1.Secret](t.Context(), c, controller.InNamespace("a"))), "a is not one of s"},
	} {
		if !errors.Is(test.err, controller.ErrNotWatched) || !strings.Contains(test.err.Error(), test.watched+"; name it in Options.Namespaces") {
			t.Errorf("%s returns %v, want an error that says %q", read, test.err, test.watched)
		}
	}
	for read, err := range map[string]error{
		"a watched namespace":        second(controller.Get[*corev1.Pod](t.Context(), c, in("b"))),
		"a kind's own namespace":     second(controller.Get[*corev1.Secret](t.Context(), c, in("s"))),
		"a kind without a namespace": second(controller.Get[*corev1.Node](t.Context(), c, in(""))),
	} {
		if !apierrors.IsNotFound(err) {
			t.Errorf("Get in %s returns %v, want NotFound", read, err)
		}
	}
	if _, err := controller.List[*corev1.Pod](t.Context(), c); err != nil {
		t.Errorf("a List of all that is watched fails: %v", err)
	}
}

func TestAGoTypeThatIsNotTheDeclaredOneIsSaidToBeThat(t *testing.T) {
	c := client(t, silent) // Its controller declares *corev1.Pod.
	kind := corev1.SchemeGroupVersion.WithKind("Pod")
	for read, err := range map[string]error{
		"metadata": second(controller.Get[*controller.Metadata[corev1.Pod]](t.Context(), c, types.NamespacedName{Namespace: "a", Name: "x"})),
		"a map":    second(controller.Create(t.Context(), c, blank(kind))),
	} {
		if !errors.Is(err, controller.ErrOtherType) || errors.Is(err, controller.ErrNotDeclared) || !strings.Contains(err.Error(), "/v1, Kind=Pod as *v1.Pod") {
			t.Errorf("%s: the error is %v", read, err)
		}
	}
}
