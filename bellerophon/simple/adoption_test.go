package simple_test

import (
	"maps"
	"strings"
	"testing"

	v1 "github.com/bellerophon-io/bellerophon/bellerophon/api/simple/v1"
	"github.com/bellerophon-io/bellerophon/cache"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

const labelInstance = "app.kubernetes.io/instance"

func commonLabels(more ...string) map[string]string {
	labels := map[string]string{"app.kubernetes.io/name": "bellerophon-simple", "app.kubernetes.io/managed-by": "bellerophon"}
	for _, instance := range more {
		labels[labelInstance] = instance
	}
	return labels
}

// The labels that the children of all objects share do not identify the owner of a child.
func TestAChildWithoutAControllerIsAdoptedByItsInstanceLabelOnly(t *testing.T) {
	w := newWorld(t)
	client := w.core.CoreV1().ConfigMaps(w.namespace)
	theirs := func(name string, labels map[string]string) *corev1.ConfigMap {
		return must(client.Create(w.ctx, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}, Data: map[string]string{"theirs": "yes"},
		}, metav1.CreateOptions{}))(t)
	}
	foreign := map[string]*corev1.ConfigMap{
		"no-instance":      theirs("no-instance", commonLabels()),
		"another-instance": theirs("another-instance", commonLabels("pegasus")),
	}
	theirs("restored", commonLabels("restored"))
	// They are in the cache, because the operator's selector matches their labels.
	w.operator = w.startOperator()
	if err := w.operator.manager.Cache().Wait(w.ctx, cache.Current); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"no-instance", "another-instance", "restored"} {
		w.create(w.hero(name, 1))
	}
	for name, made := range foreign {
		message := w.awaitDegraded(name, v1.ReasonNameConflict)
		if !strings.Contains(message, "ConfigMap "+w.namespace+"/"+name) || !strings.Contains(message, labelInstance+"="+name) {
			t.Errorf("the message for %s is %q, which does not say what to do", name, message)
		}
		now := must(client.Get(w.ctx, name, metav1.GetOptions{}))(t)
		if now.ResourceVersion != made.ResourceVersion || len(now.OwnerReferences) > 0 {
			t.Errorf("the operator changed %s: %v", name, now)
		}
	}
	w.awaitEvent(v1.ReasonNameConflict)
	w.await(configMaps, "restored", "adopted", func(object *unstructured.Unstructured) bool {
		return object != nil && metav1.GetControllerOf(object) != nil
	})
	w.awaitReady("restored", 1)

	// Take the way out that the message names.
	patch := `{"metadata":{"labels":{"` + labelInstance + `":"no-instance"}}}`
	must(client.Patch(w.ctx, "no-instance", "application/merge-patch+json", []byte(patch), metav1.PatchOptions{}))(t)
	w.change("no-instance", `{"spec":{"winged_horse_name":"tulpar"}}`)
	w.awaitReady("no-instance", 1)
	now := must(client.Get(w.ctx, "no-instance", metav1.GetOptions{}))(t)
	if !maps.Equal(now.Labels, commonLabels("no-instance")) || now.Data["theirs"] != "yes" || now.Data["winged_horse_name"] != "tulpar" || len(now.OwnerReferences) != 1 {
		t.Errorf("adopted, it has the labels %v, the owners %v and the data %v", now.Labels, now.OwnerReferences, now.Data)
	}
}
