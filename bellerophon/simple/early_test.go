package simple_test

import (
	"net/http"
	"path"
	"slices"
	"testing"
	"time"

	v1 "github.com/bellerophon-io/bellerophon/bellerophon/api/simple/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// slowLists holds back requests for all objects of some resources until letGo is closed. Requests
// with a field selector pass.
type slowLists struct {
	http.RoundTripper
	resources []string
	letGo     <-chan struct{}
}

func (s slowLists) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Method == http.MethodGet && request.URL.Query().Get("fieldSelector") == "" && slices.Contains(s.resources, path.Base(request.URL.Path)) {
		select {
		case <-s.letGo:
		case <-request.Context().Done():
			return nil, request.Context().Err()
		}
	}
	return s.RoundTripper.RoundTrip(request)
}

// startBeforeLists starts an operator whose lists of some resources begin only when letGo is called.
func (w *world) startBeforeLists(resources ...string) (letGo func()) {
	w.t.Helper()
	until := make(chan struct{})
	config := w.operatorConfig()
	config.Wrap(func(inner http.RoundTripper) http.RoundTripper {
		return slowLists{inner, resources, until}
	})
	w.operator = w.startOperatorAs(config)
	return func() { close(until) }
}

func TestAtAStartNewObjectsNeedNotWaitForLists(t *testing.T) {
	w := newWorld(t)
	w.create(w.hero("pegasus", 1))
	letGo := w.startBeforeLists("sheroes", "configmaps", "services", "statefulsets")
	for _, child := range children {
		w.await(child, "pegasus", "created", func(object *unstructured.Unstructured) bool { return object != nil })
	}
	w.awaitReady("pegasus", 1)
	letGo()
	w.awaitReady("pegasus", 1)
}

// An operator may end after it created children and before it wrote its first status.
func TestChildrenThatAreThereBeforeTheyAreListedAreLeftAloneUntilThen(t *testing.T) {
	w := newWorld(t)
	w.create(w.hero("pegasus", 1))
	labels := map[string]string{"app.kubernetes.io/name": "bellerophon-simple", "app.kubernetes.io/instance": "pegasus", "app.kubernetes.io/managed-by": "bellerophon"}
	hero := heroOf(t, must(w.heroes.Get(w.ctx, "pegasus", metav1.GetOptions{}))(t))
	owner := *metav1.NewControllerRef(hero, v1.GroupVersion.WithKind("BellerophonSimple"))
	owned := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "pegasus", Labels: labels, OwnerReferences: []metav1.OwnerReference{owner}},
		Data:       map[string]string{"winged_horse_name": "another"},
	}
	must(w.core.CoreV1().ConfigMaps(w.namespace).Create(w.ctx, owned, metav1.CreateOptions{}))(t)
	unowned := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "pegasus", Labels: labels},
		Spec:       corev1.ServiceSpec{ClusterIP: "None", Selector: labels, Ports: []corev1.ServicePort{{Name: "http", Port: 8080}}},
	}
	must(w.core.CoreV1().Services(w.namespace).Create(w.ctx, unowned, metav1.CreateOptions{}))(t)

	letGo := w.startBeforeLists("sheroes", "configmaps", "services", "statefulsets")
	for w.operator.results.Load() == 0 {
		select {
		case err := <-w.operator.errors:
			t.Fatal(err)
		case <-w.ctx.Done():
			t.Fatal("the operator does not reconcile before all is listed")
		case <-time.After(10 * time.Millisecond):
		}
	}
	if sets := must(w.core.AppsV1().StatefulSets(w.namespace).List(w.ctx, metav1.ListOptions{}))(t).Items; len(sets) > 0 {
		t.Error("one child exists already, but others are created before they are listed")
	}
	letGo()
	w.await(configMaps, "pegasus", "repaired", func(object *unstructured.Unstructured) bool {
		horse, _, _ := unstructured.NestedString(object.Object, "data", "winged_horse_name")
		return horse == "pegasus"
	})
	w.await(services, "pegasus", "adopted", func(object *unstructured.Unstructured) bool {
		return metav1.GetControllerOf(object) != nil
	})
	w.awaitReady("pegasus", 1)
}
