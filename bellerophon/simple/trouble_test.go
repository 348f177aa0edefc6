package simple_test

import (
	"errors"
	"maps"
	"strings"
	"testing"
	"time"

	v1 "github.com/bellerophon-io/bellerophon/bellerophon/api/simple/v1"
	"github.com/bellerophon-io/bellerophon/bellerophon/connect"
	"github.com/bellerophon-io/bellerophon/bellerophon/install"
	"github.com/bellerophon-io/bellerophon/cache"
	"github.com/bellerophon-io/bellerophon/sources"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

// awaitDegraded waits until an object is Degraded for a reason, and returns why.
func (w *world) awaitDegraded(name, reason string) string {
	w.t.Helper()
	var message string
	w.awaitCondition(name, v1.ConditionDegraded, func(_ *v1.BellerophonSimple, condition *metav1.Condition) bool {
		message = condition.Message
		return condition.Reason == reason
	})
	return message
}

func TestAnImageThatCannotBePulledIsReportedAndHarmsNobodyElse(t *testing.T) {
	w := newWorldWithOperator(t)
	w.create(w.hero("bad", 2, "image", "registry.invalid/server:v1"))
	w.create(w.hero("good", 2))
	message := w.awaitDegraded("bad", v1.ReasonImagePullFailed)
	if !strings.Contains(message, "registry.invalid/server:v1") || !strings.Contains(message, "bad-0") {
		t.Errorf("the message %q names neither pod nor image", message)
	}
	w.awaitReady("good", 2)
	w.awaitEvent(v1.ReasonImagePullFailed)
	// Another image is the way out.
	w.change("bad", `{"spec":{"image":"bellerophon-io/bellerophon-server:v1"}}`)
	w.awaitReady("bad", 2)
	w.awaitEvent("Recovered")
}

// Pods are watched only for objects in trouble. Until they are listed, the status must keep the
// problem.
func TestARestartWithAnObjectInTroubleWritesNothing(t *testing.T) {
	w := newWorldWithOperator(t)
	w.create(w.hero("bad", 1, "image", "registry.invalid/server:v1"))
	w.awaitDegraded("bad", v1.ReasonImagePullFailed)
	if err := w.operator.manager.Cache().Wait(w.ctx, cache.Settled); err != nil {
		t.Fatal(err)
	}
	w.operator.stop()
	before := w.writes()
	letGo := w.startBeforeLists("pods")
	<-time.After(2 * time.Second) // An interim status would be written after one second.
	letGo()
	if err := w.operator.manager.Cache().Wait(w.ctx, cache.Settled); err != nil {
		t.Fatal(err)
	}
	if after := w.writes(); !maps.Equal(before, after) {
		t.Errorf("writes before the restart %v, after it %v: want no difference", before, after)
	}
	if store := w.operator.manager.Cache().Store(schema.GroupKind{Kind: "Pod"}); store == nil || store.Len() != 1 {
		t.Error("the pod of the object is not watched")
	}
	w.change("bad", `{"spec":{"image":"bellerophon-io/bellerophon-server:v1"}}`)
	w.awaitReady("bad", 1)
}

func TestServersThatFindNoNodeAreReported(t *testing.T) {
	w := newWorldWithOperator(t)
	cordon := func(closed bool) {
		nodes := must(w.core.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{}))(t)
		for _, node := range nodes.Items {
			patch := `{"spec":{"unschedulable":false}}`
			if closed {
				patch = `{"spec":{"unschedulable":true}}`
			}
			must(w.core.CoreV1().Nodes().Patch(t.Context(), node.Name, "application/merge-patch+json", []byte(patch), metav1.PatchOptions{}))(t)
		}
	}
	w.create(w.hero("before", 1))
	w.awaitReady("before", 1)
	cordon(true)
	opened := false
	defer func() {
		if !opened {
			cordon(false)
		}
	}()
	w.create(w.hero("pegasus", 1))
	if message := w.awaitDegraded("pegasus", v1.ReasonUnschedulable); !strings.Contains(message, "pegasus-0") {
		t.Errorf("the message %q does not name the pod", message)
	}
	w.awaitReady("before", 1)
	cordon(false)
	opened = true
	w.awaitReady("pegasus", 1)
}

func TestAnObjectOfSomebodyElseWithTheSameNameIsReportedAndLeftAlone(t *testing.T) {
	w := newWorldWithOperator(t)
	foreign := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "pegasus"}, Data: map[string]string{"theirs": "yes"}}
	made := must(w.core.CoreV1().ConfigMaps(w.namespace).Create(w.ctx, foreign, metav1.CreateOptions{}))(t)
	w.create(w.hero("pegasus", 1))
	if message := w.awaitDegraded("pegasus", v1.ReasonNameConflict); !strings.Contains(message, "ConfigMap") {
		t.Errorf("the message %q does not name the object", message)
	}
	now := must(w.core.CoreV1().ConfigMaps(w.namespace).Get(w.ctx, "pegasus", metav1.GetOptions{}))(t)
	if now.ResourceVersion != made.ResourceVersion {
		t.Errorf("the operator changed it: %v", now)
	}
}

// allowOnly creates a quota with the name limit, and waits until it is in force.
func (w *world) allowOnly(number, what string) {
	w.t.Helper()
	quota := &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Name: "limit"},
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourceName(what): resource.MustParse(number)}},
	}
	must(w.core.CoreV1().ResourceQuotas(w.namespace).Create(w.ctx, quota, metav1.CreateOptions{}))(w.t)
	w.await(schema.GroupVersionResource{Version: "v1", Resource: "resourcequotas"}, "limit", "in force", func(object *unstructured.Unstructured) bool {
		hard, _, _ := unstructured.NestedMap(object.Object, "status", "hard")
		return len(hard) > 0
	})
}

func TestARefusedWriteIsReported(t *testing.T) {
	w := newWorldWithOperator(t)
	w.allowOnly("0", "count/statefulsets.apps")
	w.create(w.hero("pegasus", 1))
	if message := w.awaitDegraded("pegasus", v1.ReasonWriteRefused); !strings.Contains(message, "quota") {
		t.Errorf("the message %q does not say what refused it", message)
	}
	if err := w.core.CoreV1().ResourceQuotas(w.namespace).Delete(w.ctx, "limit", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	w.awaitReady("pegasus", 1)
}

func TestServersThatAQuotaForbidsAreReported(t *testing.T) {
	w := newWorldWithOperator(t)
	w.allowOnly("2", "pods")
	w.create(w.hero("pegasus", 4))
	if message := w.awaitDegraded("pegasus", v1.ReasonReplicasNotCreated); !strings.HasPrefix(message, "2 of 4 servers exist") {
		t.Errorf("the message is %q", message)
	}
	w.change("pegasus", `{"spec":{"replicas":2}}`)
	w.awaitReady("pegasus", 2)
}

func TestTheSchemaSaysWhatIsAllowed(t *testing.T) {
	w := newWorld(t)
	for want, object := range map[string]*unstructured.Unstructured{
		"replicas must be between 0 and 1000":             w.hero("pegasus", 1001),
		"image must not contain white space":              w.hero("pegasus", 1, "image", "a b"),
		"metadata.name must have at most 52 characters":   w.hero(strings.Repeat("p", 53), 1),
		"winged_horse_name must have 1 to 253 characters": w.hero("pegasus", 1, "winged_horse_name", ""),
	} {
		_, err := w.heroes.Create(w.ctx, object, metav1.CreateOptions{})
		if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: want a refusal that says %q", err, want)
		}
	}
}

func TestWithoutPermissionsTheErrorNamesVerbAndResource(t *testing.T) {
	w := newWorld(t)
	config := rest.CopyConfig(w.config)
	config.Impersonate = rest.ImpersonationConfig{UserName: "nobody"}
	operator := w.startOperatorAs(config)
	for err := range operator.errors {
		var request *sources.RequestError
		if !errors.As(err, &request) || !apierrors.IsForbidden(err) {
			t.Fatalf("%v: want a request that was forbidden", err)
		}
		if request.Kind.Resource() != "sheroes" {
			continue
		}
		text := connect.Explain(err).Error()
		for _, part := range []string{`User "nobody"`, "cannot list", `resource "sheroes"`, "RBAC"} {
			if !strings.Contains(text, part) {
				t.Errorf("%q does not say %q", text, part)
			}
		}
		return
	}
}

func TestTheOperatorWaitsForItsResourceDefinition(t *testing.T) {
	w := newWorld(t)
	const name = "sheroes.stable.simple-bellerophon.io"
	definitions := schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	account := w.operatorConfig()
	watcher := must(w.any.Resource(definitions).Watch(w.ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + name}))(t)
	defer watcher.Stop()
	if err := w.any.Resource(definitions).Delete(w.ctx, name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	for event := range watcher.ResultChan() {
		if event.Type == "DELETED" {
			break
		}
	}
	operator := w.startOperatorAs(account)
	for err := range operator.errors {
		if text := connect.Explain(err).Error(); strings.Contains(text, "sheroes") {
			if !strings.Contains(text, "CustomResourceDefinition") || !strings.Contains(text, "waiting") {
				t.Errorf("%q does not name the missing definition, or that the operator waits for it", text)
			}
			break
		}
	}
	if level := operator.manager.Cache().Level(); level != cache.Starting {
		t.Errorf("level %v without the definition", level)
	}
	must(install.Operator(w.ctx, w.config, install.Options{}))(t)
	w.create(w.hero("pegasus", 1))
	w.awaitReady("pegasus", 1)
}

func TestAForeignPortOfTheServiceIsRepairedAndOthersStay(t *testing.T) {
	w := newWorldWithOperator(t)
	w.create(w.hero("pegasus", 1))
	w.awaitReady("pegasus", 1)
	patch := `{"spec":{"ports":[{"name":"theirs","port":7000},{"name":"http","port":9090,"targetPort":"http"}]}}`
	must(w.any.Resource(services).Namespace(w.namespace).Patch(w.ctx, "pegasus", "application/merge-patch+json", []byte(patch), metav1.PatchOptions{}))(t)
	w.await(services, "pegasus", "repaired", func(object *unstructured.Unstructured) bool {
		ports, _, _ := unstructured.NestedSlice(object.Object, "spec", "ports")
		return len(ports) == 2 && ports[0].(map[string]any)["port"] == int64(7000) && ports[1].(map[string]any)["port"] == int64(8080)
	})
	w.awaitReady("pegasus", 1)
}

func TestFieldsThatOtherPeopleSetCauseNoWrites(t *testing.T) {
	w := newWorldWithOperator(t)
	w.create(w.hero("pegasus", 1))
	w.awaitReady("pegasus", 1)
	// A field of our container that we do not own, and a mount before ours.
	patch := `[{"op":"add","path":"/spec/template/spec/containers/0/tty","value":true},
		{"op":"add","path":"/spec/template/spec/containers/0/volumeMounts/0","value":{"name":"tmp","mountPath":"/var/tmp"}}]`
	must(w.any.Resource(statefulSets).Namespace(w.namespace).Patch(w.ctx, "pegasus", "application/json-patch+json", []byte(patch), metav1.PatchOptions{}))(t)
	w.await(statefulSets, "pegasus", "rolled out", func(object *unstructured.Unstructured) bool {
		status, _, _ := unstructured.NestedMap(object.Object, "status")
		return status["observedGeneration"] == object.GetGeneration() && status["currentRevision"] == status["updateRevision"] && status["readyReplicas"] == int64(1)
	})
	w.awaitReady("pegasus", 1)
	if err := w.operator.manager.Cache().Wait(w.ctx, cache.Settled); err != nil {
		t.Fatal(err)
	}
	before := w.writes()
	w.operator.stop()
	again := w.startOperator()
	if err := again.manager.Cache().Wait(w.ctx, cache.Settled); err != nil {
		t.Fatal(err)
	}
	if again.results.Load() == 0 {
		t.Fatal("the operator has reconciled nothing")
	}
	if after := w.writes(); before["statefulsets"] != after["statefulsets"] {
		t.Errorf("the operator wrote the StatefulSet %v times", after["statefulsets"]-before["statefulsets"])
	}
}

func TestAStatefulSetOfSomebodyElseIsNotReportedAsOurs(t *testing.T) {
	w := newWorldWithOperator(t)
	foreign := w.hero("pegasus", 0) // Only for its name.
	labels := map[string]string{"app": "theirs"}
	replicas := int32(2)
	set := &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: foreign.GetName()},
		Spec: appsv1.StatefulSetSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}},
		},
	}
	must(w.core.AppsV1().StatefulSets(w.namespace).Create(w.ctx, set, metav1.CreateOptions{}))(t)
	w.await(statefulSets, "pegasus", "ready", func(object *unstructured.Unstructured) bool {
		ready, _, _ := unstructured.NestedInt64(object.Object, "status", "readyReplicas")
		return ready == 2
	})
	w.create(w.hero("pegasus", 1))
	w.awaitDegraded("pegasus", v1.ReasonNameConflict)
	hero := heroOf(t, must(w.heroes.Get(w.ctx, "pegasus", metav1.GetOptions{}))(t))
	if hero.Status.Replicas != 0 || hero.Status.ReadyReplicas != 0 {
		t.Errorf("the status counts the servers of another client: %+v", hero.Status)
	}
}
