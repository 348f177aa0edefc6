package hero

import (
	"errors"
	"testing"

	v1 "github.com/bellerophon-io/bellerophon/bellerophon/api/hero/v1"
	"github.com/bellerophon-io/bellerophon/bellerophon/owned"
	"github.com/bellerophon-io/bellerophon/bellerophon/server/client"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// runningHero is a hero of three ready members in Ready pods.
func runningHero() *view {
	three := int32(3)
	v := &view{
		hero: &v1.Bellerophon{ObjectMeta: metav1.ObjectMeta{Name: "hero"}, Spec: v1.BellerophonSpec{Replicas: &three}, Status: v1.BellerophonStatus{Bootstrapped: true}},
		set:  &appsv1.StatefulSet{Spec: appsv1.StatefulSetSpec{Replicas: &three}}, statuses: map[string]*memberReport{},
	}
	v.set.Status.UpdateRevision = "hero-new"
	for ordinal := range three {
		name := podName(v.hero, ordinal)
		meta := metav1.ObjectMeta{Name: name, Labels: map[string]string{appsv1.ControllerRevisionHashLabelKey: "hero-new"}}
		whole := &corev1.Pod{ObjectMeta: meta}
		whole.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		v.pods = append(v.pods, &owned.Pod{ObjectMeta: meta, Whole: whole})
		v.statuses[name] = &memberReport{Status: client.Status{ID: name, Role: client.Follower, Ready: true}}
	}
	v.statuses["hero-0"].Role = client.Leader
	v.leader = v.statuses["hero-0"]
	return v
}

func TestARolloutAndTheStatusWaitUntilTheServiceSendsRequestsToAMember(t *testing.T) {
	v := runningHero()
	v.pods[2].Whole.Status.Conditions[0].Status = corev1.ConditionFalse        // Its pod is new. The kubelet has not asked it yet.
	v.pods[1].Whole.Labels[appsv1.ControllerRevisionHashLabelKey] = "hero-old" // It is next.
	result := (&reconciler{}).roll(t.Context(), v)                             // Without a client, a deletion would panic.
	var wait waiting
	if !errors.As(result, &wait) || wait != "hero-2 gets ready" {
		t.Errorf("the rollout says %v, want that hero-2 gets ready", result)
	}
	if status, _ := statusOf(v, nil); status.ReadyReplicas != 2 || status.Members[2].Ready || status.Phase != v1.PhaseUpdating {
		t.Errorf("%d members are ready in the phase %s: %+v", status.ReadyReplicas, status.Phase, status.Members)
	}
}
