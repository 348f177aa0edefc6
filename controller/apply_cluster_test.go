package controller_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/bellerophon-io/bellerophon/controller"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
)

func TestAnApplyThatWouldChangeNothingIsNotSent(t *testing.T) {
	d := newDesk(t)
	wanted := func(color string) *applycorev1.ConfigMapApplyConfiguration {
		return applycorev1.ConfigMap("x", d.namespace).WithLabels(map[string]string{"app": "web"}).WithData(map[string]string{"color": color, "size": "9"})
	}
	apply := func(configuration *applycorev1.ConfigMapApplyConfiguration, options ...controller.WriteOption) *corev1.ConfigMap {
		t.Helper()
		made, err := controller.Apply[*corev1.ConfigMap](t.Context(), d.client, configuration, options...)
		d.must(err)
		return made
	}
	made := apply(wanted("red"))
	d.wantSent("at first", "PATCH x")
	for range 3 {
		again := apply(wanted("red"))
		if again.UID != made.UID || again.Data["color"] != "red" {
			t.Errorf("it returned %v", again)
		}
		again.Data["color"] = "of the caller"
	}
	d.wantSent("with the same configuration")
	if held, _ := cached[*corev1.ConfigMap](d.client, d.name("x")); held.Data["color"] != "red" {
		t.Error("a change of what Apply returned is in the cache")
	}

	// Another client changes parts that the configuration does not set.
	d.foreign(`{"metadata":{"annotations":{"seen":"yes"},"labels":{"tier":"front"}}}`)
	apply(wanted("red"))
	d.wantSent("after a change of other labels and annotations")
	d.foreign(`{"data":{"other":"yes"}}`)
	apply(wanted("red"))
	apply(wanted("red"))
	d.wantSent("after a change of the data", "PATCH x") // Only the API server knows that the data is no atomic map.

	// Drift of a field that it sets is repaired, with force.
	d.foreign(`{"data":{"color":"grey"}}`)
	if _, err := controller.Apply[*corev1.ConfigMap](t.Context(), d.client, wanted("red")); !apierrors.IsConflict(err) || !strings.Contains(err.Error(), "somebody") {
		t.Errorf("without force the drift of another client is overwritten: %v", err)
	}
	repaired := apply(wanted("red"), controller.Force())
	if repaired.Data["color"] != "red" || repaired.Data["other"] != "yes" {
		t.Errorf("the repaired object has %v", repaired.Data)
	}
	d.wantSent("after drift", "PATCH x", "PATCH x")

	// What the configuration no longer sets goes.
	pruned := apply(applycorev1.ConfigMap("x", d.namespace).WithData(map[string]string{"color": "red"}))
	if !reflect.DeepEqual(pruned.Data, map[string]string{"color": "red", "other": "yes"}) || pruned.Labels["app"] != "" {
		t.Errorf("the pruned object has %v and the labels %v", pruned.Data, pruned.Labels)
	}
	d.wantSent("with fewer fields", "PATCH x")

	// A recreated object is another one.
	d.must(d.others.CoreV1().ConfigMaps(d.namespace).Delete(t.Context(), "x", metav1.DeleteOptions{}))
	d.gone("x")
	if again := apply(applycorev1.ConfigMap("x", d.namespace).WithData(map[string]string{"color": "red"})); again.UID == made.UID {
		t.Error("it was not created again")
	}
	d.wantSent("after a deletion", "PATCH x")
}

func (d *desk) foreign(patch string) {
	d.t.Helper()
	written, err := d.others.CoreV1().ConfigMaps(d.namespace).Patch(d.t.Context(), "x", types.MergePatchType, []byte(patch), metav1.PatchOptions{FieldManager: "somebody"})
	d.must(err)
	d.until("the cache has the change of another client", func() bool {
		held, _ := cached[*corev1.ConfigMap](d.client, d.name("x"))
		return held != nil && held.ResourceVersion == written.ResourceVersion
	})
}

func TestAnApplyWithDefaultsAndListsSettles(t *testing.T) {
	d := newDesk(t)
	selected := map[string]string{"app": "web"}
	wanted := func() *appsv1.Deployment {
		return &appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Namespace: d.namespace, Name: "web"},
			Spec: appsv1.DeploymentSpec{
				Selector: &metav1.LabelSelector{MatchLabels: selected},
				Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: selected}, Spec: corev1.PodSpec{Containers: []corev1.Container{{
					Name: "server", Image: "example.invalid/server", Ports: []corev1.ContainerPort{{ContainerPort: 80}},
				}}}},
			},
		}
	}
	apply := func() *appsv1.Deployment {
		t.Helper()
		made, err := controller.Apply[*appsv1.Deployment](t.Context(), d.client, controller.ApplyConfigurationOf(wanted()))
		d.must(err)
		return made
	}
	made := apply()
	if made.Spec.Template.Spec.Containers[0].Ports[0].Protocol != corev1.ProtocolTCP {
		t.Errorf("the API server set no default: %+v", made.Spec.Template.Spec.Containers[0])
	}
	d.wantSent("at first", "PATCH web")
	_, err := d.others.AppsV1().Deployments(d.namespace).Patch(t.Context(), "web", types.StrategicMergePatchType,
		[]byte(`{"spec":{"replicas":3,"template":{"spec":{"containers":[{"name":"sidecar","image":"example.invalid/sidecar"}]}}}}`), metav1.PatchOptions{})
	d.must(err)
	d.until("the cache has the second container", func() bool {
		held, _ := cached[*appsv1.Deployment](d.client, d.name("web"))
		return len(held.Spec.Template.Spec.Containers) == 2
	})
	if kept := apply(); *kept.Spec.Replicas != 3 || len(kept.Spec.Template.Spec.Containers) != 2 {
		t.Errorf("fields of another client are undone: %+v", kept.Spec)
	}
	apply()
	d.wantSent("with fields of another client beside it", "PATCH web")
}

func TestAnApplySeesDriftOfAnAtomicMap(t *testing.T) {
	d := newDesk(t)
	wanted := blank(serviceKind)
	wanted.SetNamespace(d.namespace)
	wanted.SetName("web")
	d.must(unstructured.SetNestedMap(wanted.Object, map[string]any{
		"clusterIP": "None", "selector": map[string]any{"app": "web"}, "ports": []any{map[string]any{"port": int64(80), "protocol": "TCP"}},
	}, "spec"))
	apply := func() *unstructured.Unstructured {
		t.Helper()
		made, err := controller.Apply[*unstructured.Unstructured](t.Context(), d.client, controller.ApplyConfigurationOf(wanted), controller.Force())
		d.must(err)
		return made
	}
	apply()
	_, err := d.others.CoreV1().Services(d.namespace).Patch(t.Context(), "web", types.MergePatchType, []byte(`{"spec":{"selector":{"tier":"front"}}}`), metav1.PatchOptions{})
	d.must(err)
	d.until("the cache has the second entry", func() bool {
		held, err := controller.Get[*unstructured.Unstructured](t.Context(), d.client, d.name("web"), controller.OfKind(serviceKind))
		d.must(err)
		selector, _, _ := unstructured.NestedStringMap(held.Object, "spec", "selector")
		return len(selector) == 2
	})
	if selector, _, _ := unstructured.NestedStringMap(apply().Object, "spec", "selector"); !reflect.DeepEqual(selector, map[string]string{"app": "web"}) {
		t.Errorf("the repaired selector is %v", selector)
	}
}

func TestTwoControllersApplyWithTheirOwnNames(t *testing.T) {
	d := newDesk(t)
	fields := func(name string) *applycorev1.ConfigMapApplyConfiguration {
		return applycorev1.ConfigMap("x", d.namespace).WithData(map[string]string{name: "yes"})
	}
	for _, name := range []string{"one", "two"} {
		_, err := controller.Apply[*corev1.ConfigMap](t.Context(), d.client, fields(name), controller.FieldManager(name))
		d.must(err)
	}
	if held, _ := cached[*corev1.ConfigMap](d.client, d.name("x")); len(held.Data) != 2 {
		t.Errorf("one field manager removed the fields of another: %v", held.Data)
	}
	made, err := d.others.CoreV1().ConfigMaps(d.namespace).Get(t.Context(), "x", metav1.GetOptions{})
	d.must(err)
	var managers []string
	for _, entry := range made.ManagedFields {
		managers = append(managers, entry.Manager)
	}
	if !slices.Equal(managers, []string{"one", "two"}) {
		t.Errorf("the field managers are %q", managers)
	}
}
