package simple_test

import (
	"fmt"
	"maps"
	"testing"
	"time"

	v1 "github.com/bellerophon-io/bellerophon/bellerophon/api/simple/v1"
	"github.com/bellerophon-io/bellerophon/cache"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var (
	configMaps   = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	services     = schema.GroupVersionResource{Version: "v1", Resource: "services"}
	statefulSets = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "statefulsets"}
	pods         = schema.GroupVersionResource{Version: "v1", Resource: "pods"}
)

// children holds the resources of an object's children.
var children = []schema.GroupVersionResource{configMaps, services, statefulSets}

func TestAnObjectGetsItsChildrenAndBecomesReady(t *testing.T) {
	w := newWorldWithOperator(t)
	w.create(w.hero("pegasus", 3))
	hero := w.awaitReady("pegasus", 3)
	if hero.Status.Replicas != 3 || hero.Status.Selector == "" {
		t.Errorf("status %+v", hero.Status)
	}
	for _, child := range children {
		object := must(w.any.Resource(child).Namespace(w.namespace).Get(w.ctx, "pegasus", metav1.GetOptions{}))(t)
		owner := metav1.GetControllerOf(object)
		if owner == nil || owner.UID != hero.UID {
			t.Errorf("%s: owner %v, want the object", child.Resource, owner)
		}
	}
	config := must(w.core.CoreV1().ConfigMaps(w.namespace).Get(w.ctx, "pegasus", metav1.GetOptions{}))(t)
	if config.Data["winged_horse_name"] != "pegasus" {
		t.Errorf("settings %v", config.Data)
	}
	service := must(w.core.CoreV1().Services(w.namespace).Get(w.ctx, "pegasus", metav1.GetOptions{}))(t)
	if service.Spec.ClusterIP != "None" {
		t.Errorf("the service has the address %q, want none: it is headless", service.Spec.ClusterIP)
	}
}

func TestANewObjectIsPendingUntilTheOperatorReportsIt(t *testing.T) {
	w := newWorld(t)
	w.create(w.hero("pegasus", 1))
	pending := must(w.heroes.Get(w.ctx, "pegasus", metav1.GetOptions{}))(t)
	conditions, _, err := unstructured.NestedSlice(pending.Object, "status", "conditions")
	if err != nil || len(conditions) != 1 {
		t.Fatalf("conditions %v, want one: %v", conditions, err)
	}
	for field, want := range map[string]string{"type": "Ready", "status": "Unknown", "reason": v1.ReasonPending} {
		if is := conditions[0].(map[string]any)[field]; is != want {
			t.Errorf("%s is %v, want %s", field, is, want)
		}
	}
	w.startOperator()
	for _, condition := range w.awaitReady("pegasus", 1).Status.Conditions {
		if condition.Reason == v1.ReasonPending || time.Since(condition.LastTransitionTime.Time) > time.Hour {
			t.Errorf("condition %+v of an object that is ready", condition)
		}
	}
}

func TestAManifestOfTheFirstVersionWorks(t *testing.T) {
	w := newWorldWithOperator(t)
	old := w.hero("example-bellerophon-hero1", 7)
	old.SetAPIVersion("stable.simple-bellerophon.io/v444beta989")
	first := schema.GroupVersionResource{Group: v1.GroupVersion.Group, Version: "v444beta989", Resource: "sheroes"}
	must(w.any.Resource(first).Namespace(w.namespace).Create(w.ctx, old, metav1.CreateOptions{}))(t)
	w.awaitReady("example-bellerophon-hero1", 7)
	read := must(w.any.Resource(first).Namespace(w.namespace).Get(w.ctx, old.GetName(), metav1.GetOptions{}))(t)
	if ready, _, _ := unstructured.NestedInt64(read.Object, "status", "readyReplicas"); ready != 7 {
		t.Errorf("the first version shows %d ready servers, want 7", ready)
	}
}

func TestAChangeOfTheSpecReachesTheServers(t *testing.T) {
	w := newWorldWithOperator(t)
	w.create(w.hero("pegasus", 2))
	w.awaitReady("pegasus", 2)
	w.change("pegasus", `{"spec":{"replicas":4,"image":"bellerophon-io/bellerophon-server:v2"}}`)
	w.awaitReady("pegasus", 4)
	found := must(w.core.CoreV1().Pods(w.namespace).List(w.ctx, metav1.ListOptions{}))(t)
	for _, pod := range found.Items {
		if image := pod.Spec.Containers[0].Image; image != "bellerophon-io/bellerophon-server:v2" {
			t.Errorf("pod %s runs %s", pod.Name, image)
		}
	}
	// The tag latest changes, so that it is pulled again, as in an object that had it from the start.
	w.change("pegasus", `{"spec":{"image":"bellerophon-io/bellerophon-server:latest"}}`)
	w.awaitReady("pegasus", 4)
	set := must(w.core.AppsV1().StatefulSets(w.namespace).Get(w.ctx, "pegasus", metav1.GetOptions{}))(t)
	if policy := set.Spec.Template.Spec.Containers[0].ImagePullPolicy; policy != "Always" {
		t.Errorf("the tag latest has the pull policy %s", policy)
	}
	// Another horse is another setting, so the servers restart to read it.
	w.change("pegasus", `{"spec":{"winged_horse_name":"tulpar"}}`)
	w.awaitReady("pegasus", 4)
	config := must(w.core.CoreV1().ConfigMaps(w.namespace).Get(w.ctx, "pegasus", metav1.GetOptions{}))(t)
	if config.Data["winged_horse_name"] != "tulpar" {
		t.Errorf("settings %v", config.Data)
	}
	w.change("pegasus", `{"spec":{"replicas":0}}`)
	w.awaitReady("pegasus", 0)
}

func TestTheScaleSubresourceScales(t *testing.T) {
	w := newWorldWithOperator(t)
	w.create(w.hero("pegasus", 1))
	w.awaitReady("pegasus", 1)
	scale := must(w.heroes.Get(w.ctx, "pegasus", metav1.GetOptions{}, "scale"))(t)
	if err := unstructured.SetNestedField(scale.Object, int64(3), "spec", "replicas"); err != nil {
		t.Fatal(err)
	}
	must(w.heroes.Update(w.ctx, scale, metav1.UpdateOptions{}, "scale"))(t)
	w.awaitReady("pegasus", 3)
}

func TestAForeignScaleOfTheStatefulSetIsRepaired(t *testing.T) {
	w := newWorldWithOperator(t)
	w.create(w.hero("pegasus", 2))
	w.awaitReady("pegasus", 2)
	before := must(w.core.AppsV1().StatefulSets(w.namespace).Get(w.ctx, "pegasus", metav1.GetOptions{}))(t)
	scale := &autoscalingv1.Scale{ObjectMeta: metav1.ObjectMeta{Name: "pegasus", Namespace: w.namespace}, Spec: autoscalingv1.ScaleSpec{Replicas: 5}}
	must(w.core.AppsV1().StatefulSets(w.namespace).UpdateScale(w.ctx, "pegasus", scale, metav1.UpdateOptions{}))(t)
	w.await(statefulSets, "pegasus", "back to 2 replicas", func(object *unstructured.Unstructured) bool {
		replicas, _, _ := unstructured.NestedInt64(object.Object, "spec", "replicas")
		return replicas == 2 && object.GetGeneration() > before.Generation+1
	})
	w.awaitReady("pegasus", 2)
	w.awaitEvent("Repaired")
}

// awaitEvent waits for a Kubernetes Event with a reason.
func (w *world) awaitEvent(reason string) {
	w.t.Helper()
	events := w.core.EventsV1().Events(w.namespace)
	watcher := must(events.Watch(w.ctx, metav1.ListOptions{FieldSelector: "reason=" + reason}))(w.t)
	defer watcher.Stop()
	if _, open := <-watcher.ResultChan(); !open {
		w.t.Errorf("there is no Event with the reason %s", reason)
	}
}

func TestADeletedChildIsMadeAnew(t *testing.T) {
	w := newWorldWithOperator(t)
	w.create(w.hero("pegasus", 1))
	w.awaitReady("pegasus", 1)
	for _, child := range children {
		client := w.any.Resource(child).Namespace(w.namespace)
		before := must(client.Get(w.ctx, "pegasus", metav1.GetOptions{}))(t)
		if err := client.Delete(w.ctx, "pegasus", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		w.await(child, "pegasus", "recreated", func(object *unstructured.Unstructured) bool {
			return object != nil && object.GetUID() != before.GetUID()
		})
	}
	w.awaitReady("pegasus", 1)
	w.awaitEvent("Recreated")
}

func TestWhatOtherPeopleAddSurvivesARepair(t *testing.T) {
	w := newWorldWithOperator(t)
	w.create(w.hero("pegasus", 1))
	w.awaitReady("pegasus", 1)
	patch := `{"metadata":{"labels":{"team":"bellerophon","app.kubernetes.io/managed-by":"theirs"},"annotations":{"note":"ours"}},"data":{"extra":"ours","winged_horse_name":"donkey"}}`
	must(w.any.Resource(configMaps).Namespace(w.namespace).Patch(w.ctx, "pegasus", "application/merge-patch+json", []byte(patch), metav1.PatchOptions{}))(t)
	w.await(configMaps, "pegasus", "repaired", func(object *unstructured.Unstructured) bool {
		horse, _, _ := unstructured.NestedString(object.Object, "data", "winged_horse_name")
		return horse == "pegasus"
	})
	config := must(w.core.CoreV1().ConfigMaps(w.namespace).Get(w.ctx, "pegasus", metav1.GetOptions{}))(t)
	if config.Labels["team"] != "bellerophon" || config.Annotations["note"] != "ours" || config.Data["extra"] != "ours" {
		t.Errorf("the additions of other clients are gone: labels %v, annotations %v, data %v", config.Labels, config.Annotations, config.Data)
	}
	if config.Labels["app.kubernetes.io/managed-by"] != "bellerophon" {
		t.Errorf("the operator's own label is not repaired: %v", config.Labels)
	}
}

func TestDeletionLeavesNothingBehind(t *testing.T) {
	w := newWorldWithOperator(t)
	w.create(w.hero("pegasus", 2))
	w.awaitReady("pegasus", 2)
	if err := w.heroes.Delete(w.ctx, "pegasus", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	gone := func(object *unstructured.Unstructured) bool { return object == nil }
	for _, child := range children {
		w.await(child, "pegasus", "gone", gone)
	}
	for i := range 2 {
		w.await(pods, fmt.Sprintf("pegasus-%d", i), "gone", gone)
	}
	if err := w.operator.manager.Cache().Wait(w.ctx, cache.Settled); err != nil {
		t.Fatal(err)
	}
	for _, store := range w.operator.manager.Cache().Stores() {
		if store.Len() > 0 {
			t.Errorf("the cache still holds %d of %s", store.Len(), store.Kind())
		}
	}
}

func TestAnObjectThatIsDeletedAndMadeAnewAtOnceBecomesReady(t *testing.T) {
	w := newWorldWithOperator(t)
	for range 3 {
		w.create(w.hero("pegasus", 1))
		w.awaitReady("pegasus", 1)
		if err := w.heroes.Delete(w.ctx, "pegasus", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	w.create(w.hero("pegasus", 2))
	w.awaitReady("pegasus", 2)
}

func TestARestartWithNothingChangedWritesNothing(t *testing.T) {
	w := newWorldWithOperator(t)
	for i := range 5 {
		w.create(w.hero(fmt.Sprintf("shero-%d", i), int64(i)))
	}
	for i := range 5 {
		w.awaitReady(fmt.Sprintf("shero-%d", i), int32(i))
	}
	if err := w.operator.manager.Cache().Wait(w.ctx, cache.Settled); err != nil {
		t.Fatal(err)
	}
	w.operator.stop()
	before := w.writes()
	again := w.startOperator()
	if err := again.manager.Cache().Wait(w.ctx, cache.Settled); err != nil {
		t.Fatal(err)
	}
	if reconciled := again.results.Load(); reconciled < 5 {
		t.Fatalf("the operator has reconciled %d times, want each of 5 objects", reconciled)
	}
	if store := again.manager.Cache().Store(v1.GroupVersion.WithKind("BellerophonSimple").GroupKind()); store.Len() != 5 {
		t.Fatalf("the operator has seen %d objects, want 5", store.Len())
	}
	if after := w.writes(); !maps.Equal(before, after) {
		t.Errorf("writes before the restart %v, after it %v: want no difference", before, after)
	}
}

func Test200ObjectsAtOnceBecomeReadyWithFewWrites(t *testing.T) {
	const objects = 200
	w := newWorldWithOperator(t)
	before := w.writes()
	began := time.Now()
	for i := range objects {
		w.create(w.hero(fmt.Sprintf("shero-%d", i), 1))
	}
	for i := range objects {
		w.awaitReady(fmt.Sprintf("shero-%d", i), 1)
	}
	took := time.Since(began)
	if err := w.operator.manager.Cache().Wait(w.ctx, cache.Settled); err != nil {
		t.Fatal(err)
	}
	after := w.writes()
	per := func(what string) float64 { return (after[what] - before[what]) / objects }
	t.Logf("writes per object in %v: %.2f ConfigMap, %.2f Service, %.2f StatefulSet, %.2f status",
		took.Round(time.Second), per("configmaps"), per("services"), per("statefulsets"), per("sheroes/status"))
	for _, child := range []string{"configmaps", "services", "statefulsets"} {
		if per(child) != 1 {
			t.Errorf("%s: %.3f writes per object, want the floor of 1", child, per(child))
		}
	}
	// One write says Ready, and mostly there is none before. With one server, an object passes through
	// two interim states, and each is written that lasts for a second. On a slow machine both do.
	most := 2.0
	if took > 30*time.Second {
		most = 3
	}
	if per("sheroes/status") < 1 || per("sheroes/status") > most {
		t.Errorf("%.2f status writes per object, want one to %.0f", per("sheroes/status"), most)
	}
}
