package hero

import (
	"errors"
	"fmt"
	"testing"

	"github.com/bellerophon-io/bellerophon/bellerophon/owned"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
)

// edit is a change of a child by another client. The operator has to give the field its value back.
type edit struct {
	resource schema.GroupVersionResource
	name     string
	patch    string
	path     []string
	want     any
}

// field returns the edited field.
func (e edit) field(of *unstructured.Unstructured) any {
	value, _, _ := unstructured.NestedFieldNoCopy(of.Object, e.path...)
	return value
}

var (
	configMaps = corev1.SchemeGroupVersion.WithResource("configmaps")
	services   = corev1.SchemeGroupVersion.WithResource("services")
	budgets    = policyv1.SchemeGroupVersion.WithResource("poddisruptionbudgets")
)

// edits has one or more edits of each child, the StatefulSet apart, whose edits have tests of their own.
var edits = []edit{
	{configMaps, heroName, `{"data":{"BELLEROPHON_LOG_LEVEL":"error"}}`, []string{"data", "BELLEROPHON_LOG_LEVEL"}, "debug"},
	{configMaps, heroName, `{"data":{"BELLEROPHON_HORSE":null}}`, []string{"data", "BELLEROPHON_HORSE"}, "arion"},
	{services, heroName, `{"spec":{"selector":{"app.kubernetes.io/instance":"other"}}}`, []string{"spec", "selector", "app.kubernetes.io/instance"}, heroName},
	{services, heroName + "-members", `{"spec":{"publishNotReadyAddresses":false}}`, []string{"spec", "publishNotReadyAddresses"}, true},
	{budgets, heroName, `{"spec":{"maxUnavailable":3}}`, []string{"spec", "maxUnavailable"}, int64(1)},
	{budgets, heroName, `{"spec":{"selector":{"matchLabels":{"app.kubernetes.io/instance":"other"}}}}`, []string{"spec", "selector", "matchLabels", "app.kubernetes.io/instance"}, heroName},
	{cronJobs, heroName + "-backup", `{"spec":{"suspend":true}}`, []string{"spec", "suspend"}, false},
	{cronJobs, heroName + "-backup", `{"spec":{"jobTemplate":{"spec":{"backoffLimit":9}}}}`, []string{"spec", "jobTemplate", "spec", "backoffLimit"}, int64(2)},
	// Without this label a child leaves the watch of the operator.
	{configMaps, heroName, `{"metadata":{"labels":{"app.kubernetes.io/managed-by":"other"}}}`, []string{"metadata", "labels", owned.LabelManagedBy}, owned.ManagedBy},
	{budgets, heroName, `{"metadata":{"labels":{"app.kubernetes.io/managed-by":"other"}}}`, []string{"metadata", "labels", owned.LabelManagedBy}, owned.ManagedBy},
	{cronJobs, heroName + "-backup", `{"metadata":{"labels":{"app.kubernetes.io/managed-by":"other"}}}`, []string{"metadata", "labels", owned.LabelManagedBy}, owned.ManagedBy},
}

// TestChildrenThatAreEditedOrDeletedComeBack edits and deletes each child of a running hero. No member may restart for it.
func TestChildrenThatAreEditedOrDeletedComeBack(t *testing.T) {
	w := newWorld(t)
	clients, err := dynamic.NewForConfig(w.config)
	if err != nil {
		t.Fatal(err)
	}
	w.create(heroName, map[string]any{
		"replicas": int64(1), "wingedHorseName": "arion", "config": map[string]any{"log-level": "debug"},
		"backup": map[string]any{"volumeClaimName": "backups", "schedule": "0 3 * * *"},
	})
	before := w.ready()
	pod, err := w.core.CoreV1().Pods(w.namespace).Get(w.ctx, podName(before, 0), metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range edits {
		children, what := clients.Resource(one.resource).Namespace(w.namespace), one.resource.Resource+"/"+one.name
		edited, err := children.Patch(w.ctx, one.name, types.MergePatchType, []byte(one.patch), metav1.PatchOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if got := one.field(edited); got == one.want {
			t.Errorf("the edit of %s leaves %v at %v", what, one.path, got)
		}
		restored := func() error {
			child, err := children.Get(w.ctx, one.name, metav1.GetOptions{})
			if err == nil && (one.field(child) != one.want || !metav1.IsControlledBy(child, before)) {
				err = fmt.Errorf("%v is %v, want %v", one.path, one.field(child), one.want)
			}
			return err
		}
		w.eventually("the edit of "+what+" is undone", restored)

		if err := children.Delete(w.ctx, one.name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		w.eventually(what+" is made again", func() error {
			child, err := children.Get(w.ctx, one.name, metav1.GetOptions{})
			if err == nil && child.GetUID() == edited.GetUID() {
				err = errors.New("it is the deleted one")
			}
			if err != nil {
				return err
			}
			return restored()
		})
	}
	after := w.ready()
	same, err := w.core.CoreV1().Pods(w.namespace).Get(w.ctx, pod.Name, metav1.GetOptions{})
	if err != nil || same.UID != pod.UID || after.Status.CurrentRevision != before.Status.CurrentRevision {
		t.Errorf("the member was restarted: its pod was %s and is %s; %v", pod.UID, same.UID, err)
	}
}
