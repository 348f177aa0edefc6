package dependents_test

import (
	"strings"
	"testing"

	"github.com/bellerophon-io/bellerophon/controller/dependents"
	"github.com/bellerophon-io/bellerophon/streams"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestAnObjectIsReadyWhenItsControllerHasMadeItSo(t *testing.T) {
	at := func(generation int64) metav1.ObjectMeta { return metav1.ObjectMeta{Generation: generation} }
	deployment := func(status appsv1.DeploymentStatus) *appsv1.Deployment {
		return &appsv1.Deployment{ObjectMeta: at(2), Spec: appsv1.DeploymentSpec{Replicas: new(int32(3))}, Status: status}
	}
	statefulSet := func(strategy appsv1.StatefulSetUpdateStrategy, status appsv1.StatefulSetStatus) *appsv1.StatefulSet {
		return &appsv1.StatefulSet{ObjectMeta: at(2), Spec: appsv1.StatefulSetSpec{Replicas: new(int32(3)), UpdateStrategy: strategy}, Status: status}
	}
	rolling := appsv1.StatefulSetUpdateStrategy{}
	partition := appsv1.StatefulSetUpdateStrategy{RollingUpdate: &appsv1.RollingUpdateStatefulSetStrategy{Partition: new(int32(2))}}
	onDelete := appsv1.StatefulSetUpdateStrategy{Type: appsv1.OnDeleteStatefulSetStrategyType}
	job := func(of batchv1.JobConditionType) *batchv1.Job {
		return &batchv1.Job{Status: batchv1.JobStatus{Conditions: []batchv1.JobCondition{{Type: of, Status: corev1.ConditionTrue, Reason: "R"}}}}
	}
	custom := func(fields ...any) *unstructured.Unstructured {
		made := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "acme.io/v1", "kind": "Horse", "metadata": map[string]any{"generation": int64(2)}}}
		if len(fields) > 0 {
			made.Object["status"] = map[string]any{"conditions": fields}
		}
		return made
	}
	condition := func(of, status string, generation int64) map[string]any {
		return map[string]any{"type": of, "status": status, "reason": "R", "message": "m", "observedGeneration": generation}
	}
	stale := custom(condition("Ready", "True", 2))
	stale.Object["status"].(map[string]any)["observedGeneration"] = int64(1)
	definition := func(status apiextensionsv1.ConditionStatus) *apiextensionsv1.CustomResourceDefinition {
		return &apiextensionsv1.CustomResourceDefinition{Status: apiextensionsv1.CustomResourceDefinitionStatus{
			Conditions: []apiextensionsv1.CustomResourceDefinitionCondition{{Type: apiextensionsv1.Established, Status: status}}}}
	}
	for _, test := range []struct {
		object streams.Object
		want   string // the message, "" if it is ready, or "!" and the message if it failed
	}{
		{deployment(appsv1.DeploymentStatus{ObservedGeneration: 1, Replicas: 3, UpdatedReplicas: 3, AvailableReplicas: 3}), "its controller has not seen generation 2"},
		{deployment(appsv1.DeploymentStatus{ObservedGeneration: 2, Replicas: 3, UpdatedReplicas: 2, AvailableReplicas: 3}), "2 of 3 replicas are updated"},
		{deployment(appsv1.DeploymentStatus{ObservedGeneration: 2, Replicas: 4, UpdatedReplicas: 3, AvailableReplicas: 4}), "1 old replicas remain"},
		{deployment(appsv1.DeploymentStatus{ObservedGeneration: 2, Replicas: 3, UpdatedReplicas: 3, AvailableReplicas: 2}), "2 of 3 replicas are available"},
		{deployment(appsv1.DeploymentStatus{ObservedGeneration: 2, Replicas: 3, UpdatedReplicas: 3, AvailableReplicas: 3}), ""},
		{deployment(appsv1.DeploymentStatus{ObservedGeneration: 2, Conditions: []appsv1.DeploymentCondition{{Type: appsv1.DeploymentProgressing, Status: "False", Reason: "R", Message: "m"}}}), "R: m"},
		{statefulSet(rolling, appsv1.StatefulSetStatus{ObservedGeneration: 1}), "its controller has not seen generation 2"},
		{statefulSet(rolling, appsv1.StatefulSetStatus{ObservedGeneration: 2, UpdatedReplicas: 2, AvailableReplicas: 3}), "2 of 3 replicas are updated"},
		{statefulSet(partition, appsv1.StatefulSetStatus{ObservedGeneration: 2, UpdatedReplicas: 1, AvailableReplicas: 3}), ""},
		{statefulSet(onDelete, appsv1.StatefulSetStatus{ObservedGeneration: 2, AvailableReplicas: 3}), ""},
		{statefulSet(rolling, appsv1.StatefulSetStatus{ObservedGeneration: 2, UpdatedReplicas: 4, AvailableReplicas: 4, Replicas: 4}), "4 replicas remain of more than the desired 3"},
		{statefulSet(rolling, appsv1.StatefulSetStatus{ObservedGeneration: 2, UpdatedReplicas: 3, AvailableReplicas: 2}), "2 of 3 replicas are available"},
		{&appsv1.DaemonSet{Status: appsv1.DaemonSetStatus{DesiredNumberScheduled: 2, UpdatedNumberScheduled: 2, NumberAvailable: 1}}, "1 of 2 replicas are available"},
		{&appsv1.DaemonSet{ObjectMeta: at(1)}, "its controller has not seen generation 1"},
		{&appsv1.ReplicaSet{Status: appsv1.ReplicaSetStatus{AvailableReplicas: 1}}, ""},
		{&appsv1.ReplicaSet{}, "0 of 1 replicas are available"},
		{job(batchv1.JobComplete), ""},
		{job(batchv1.JobSuspended), "the job is not complete"},
		{job(batchv1.JobFailed), "!the job failed: R: "},
		{&corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodSucceeded}}, ""},
		{&corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodFailed, Reason: "Evicted"}}, "!the pod failed: Evicted"},
		{&corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodRunning}}, "the pod is not ready"},
		{&corev1.Pod{Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: "True"}}}}, ""},
		{&corev1.PersistentVolumeClaim{}, "it is not bound"},
		{&corev1.PersistentVolumeClaim{Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound}}, ""},
		{&corev1.PersistentVolumeClaim{Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimLost}}, "!its volume is lost"},
		{&corev1.Service{}, ""},
		{&corev1.Service{Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer}}, "its load balancer has no address"},
		{&corev1.Namespace{}, "it is not active"},
		{&corev1.Secret{}, ""},
		{&autoscalingv2.HorizontalPodAutoscaler{}, ""},
		{definition("True"), ""},
		{definition("False"), "condition Established is False"},
		{&apiextensionsv1.CustomResourceDefinition{}, "it has none of the conditions Ready, Available, Established"},
		{custom(), ""},
		{custom(condition("Other", "True", 2)), ""},
		{custom(condition("Available", "False", 2), condition("Ready", "True", 2)), ""},
		{custom(condition("Available", "Unknown", 2)), "condition Available is Unknown: R: m"},
		{custom(condition("Ready", "True", 1)), "condition Ready is of generation 1, and it is at 2"},
		{stale, "its status is of generation 1, and it is at 2"},
	} {
		got := dependents.IsReady(test.object)
		text := got.Message
		if got.Failed {
			text = "!" + text
		}
		if text != test.want || got.Ready != (test.want == "") {
			t.Errorf("a %T with the status %v is %+v, want %q", test.object, test.object, got, test.want)
		}
	}
	check := dependents.Condition[*unstructured.Unstructured]("Synced")
	if got, err := check(t.Context(), custom(condition("Ready", "True", 2))); err != nil || got.Ready || !strings.Contains(got.Message, "no condition Synced") {
		t.Errorf("without the condition it is %+v: %v", got, err)
	}
	if got, err := check(t.Context(), custom(condition("Synced", "True", 2))); err != nil || !got.Ready {
		t.Errorf("with the condition it is %+v: %v", got, err)
	}
}
