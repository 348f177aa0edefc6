package controller_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/streams"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

func TestAnOwnWriteThatTheFieldSelectorOfTheWatchExcludesIsNotRead(t *testing.T) {
	for selector, shown := range map[string]bool{
		"spec.nodeName=red":             true,
		"spec.nodeName!=red":            false,
		"spec.nodeName=blue":            false,
		"metadata.name=x":               true,
		"metadata.name=y":               false,
		"metadata.namespace!=a":         false,
		"status.phase=":                 true,
		"spec.hostNetwork=false":        true,
		"spec.nodeName=red,spec.odd=no": true, // Only the API server knows the second field.
	} {
		api, _ := answering(t, func() *http.Response {
			answer := pod("x", "6")
			answer.Spec.NodeName = "red"
			return says(http.StatusCreated, answer)
		})
		for form, of := range map[string]controller.Option{
			"typed": controller.For(&corev1.Pod{}, controller.FieldSelector(selector)),
			"a map": controller.For(blank(corev1.SchemeGroupVersion.WithKind("Pod")), controller.FieldSelector(selector)),
		} {
			if form == "a map" && strings.Contains(selector, "odd") {
				continue // A map has no type that says which fields there are.
			}
			c, object := reader(t, api, of), streams.Object(pod("x", ""))
			if form == "a map" {
				object = blank(corev1.SchemeGroupVersion.WithKind("Pod"))
				object.SetNamespace("a")
			}
			if _, err := controller.Create(t.Context(), c, object); err != nil {
				t.Fatal(err)
			}
			store := c.Manager().Cache().Store(corev1.SchemeGroupVersion.WithKind("Pod").GroupKind())
			if _, found := store.Get(types.NamespacedName{Namespace: "a", Name: "x"}); found != shown {
				t.Errorf("with %s, %s: the next read finds it: %t, want %t", selector, form, found, shown)
			}
		}
	}
}

func TestATypedWriteOfAKindThatTheCacheKeepsAsAMapIsReadAsAMap(t *testing.T) {
	api, _ := answering(t, func() *http.Response {
		answer := pod("x", "6")
		answer.TypeMeta = metav1.TypeMeta{} // As decoded from protobuf.
		return says(http.StatusCreated, answer)
	})
	kind := corev1.SchemeGroupVersion.WithKind("Pod")
	c := reader(t, api, controller.For(blank(kind)))
	if made, err := controller.Create(t.Context(), c, pod("x", "")); err != nil || made.ResourceVersion != "6" {
		t.Fatalf("the write returns %v: %v", made, err)
	}
	held, err := controller.Get[*unstructured.Unstructured](t.Context(), c, podX)
	if err != nil || held.GroupVersionKind() != kind || held.GetResourceVersion() != "6" {
		t.Errorf("the next read sees %v: %v", held, err)
	}
}

func TestAnUnconditionalPatchSendsNoVersion(t *testing.T) {
	api, last := answering(t, func() *http.Response { return says(http.StatusOK, pod("x", "9")) })
	c, before, after := client(t, api), pod("x", "5"), labelled(pod("x", "7"))
	for _, from := range []controller.PatchSource{controller.MergeFrom(before), controller.StrategicMergeFrom(before)} {
		if _, err := controller.Patch(t.Context(), c, after, from, controller.Unconditional()); err != nil {
			t.Fatal(err)
		}
		if metadata, _ := last.body["metadata"].(map[string]any); metadata["resourceVersion"] != nil || metadata["labels"] == nil {
			t.Errorf("it sent %v", last.body)
		}
		*last = sent{}
		if _, err := controller.Patch(t.Context(), c, pod("x", "7"), from); err != nil || last.method != "" {
			t.Errorf("for objects that differ in their versions alone it sent %+v: %v", *last, err)
		}
	}
}
