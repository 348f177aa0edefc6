package main

import (
	"fmt"

	v1 "github.com/bellerophon-io/bellerophon/bellerophon/api/simple/v1"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// statusOf returns the status that an object should have, given its StatefulSet, and whether the
// rollout is finished.
func statusOf(hero *v1.BellerophonSimple, servers *appsv1.StatefulSet) (v1.BellerophonSimpleStatus, bool) {
	status := *hero.Status.DeepCopy()
	status.ObservedGeneration = hero.Generation
	status.Selector = labels.SelectorFromSet(selectorOf(hero)).String()
	status.Replicas, status.ReadyReplicas = 0, 0
	if servers != nil {
		status.Replicas, status.ReadyReplicas = servers.Status.Replicas, servers.Status.ReadyReplicas
	}
	want := *hero.Spec.Replicas
	message := fmt.Sprintf("%d of %d servers are ready", status.ReadyReplicas, want)
	set := func(kind string, is metav1.ConditionStatus, reason string) {
		meta.SetStatusCondition(&status.Conditions, metav1.Condition{
			Type: kind, Status: is, Reason: reason, Message: message, ObservedGeneration: hero.Generation,
		})
	}
	if !isFinished(servers, want) {
		set(v1.ConditionReady, metav1.ConditionFalse, v1.ReasonReplicasNotReady)
		set(v1.ConditionProgressing, metav1.ConditionTrue, v1.ReasonRollingOut)
		set(v1.ConditionDegraded, metav1.ConditionFalse, v1.ReasonRollingOut)
		return status, false
	}
	reason := v1.ReasonAllReplicasReady
	if want == 0 {
		reason = v1.ReasonScaledToZero
	}
	set(v1.ConditionReady, metav1.ConditionTrue, reason)
	set(v1.ConditionProgressing, metav1.ConditionFalse, reason)
	set(v1.ConditionDegraded, metav1.ConditionFalse, reason)
	return status, true
}

func isFinished(servers *appsv1.StatefulSet, want int32) bool {
	if servers == nil || servers.Status.ObservedGeneration < servers.Generation {
		return false
	}
	status := &servers.Status
	return status.Replicas == want && status.ReadyReplicas == want && status.UpdatedReplicas == want &&
		(want == 0 || status.CurrentRevision == status.UpdateRevision)
}
