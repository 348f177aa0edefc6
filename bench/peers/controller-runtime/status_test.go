package main

import (
	"testing"

	v1 "github.com/bellerophon-io/bellerophon/bellerophon/api/simple/v1"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestServersAreFinishedWhenAllOfTheNewestRevisionAreReady(t *testing.T) {
	finished := appsv1.StatefulSetStatus{ObservedGeneration: 3, Replicas: 2, ReadyReplicas: 2, UpdatedReplicas: 2, CurrentRevision: "b", UpdateRevision: "b"}
	for name, test := range map[string]struct {
		change func(*appsv1.StatefulSetStatus)
		want   bool
	}{
		"finished":            {func(*appsv1.StatefulSetStatus) {}, true},
		"an older generation": {func(s *appsv1.StatefulSetStatus) { s.ObservedGeneration = 2 }, false},
		"one more":            {func(s *appsv1.StatefulSetStatus) { s.Replicas = 3 }, false},
		"one not ready":       {func(s *appsv1.StatefulSetStatus) { s.ReadyReplicas = 1 }, false},
		"one not updated":     {func(s *appsv1.StatefulSetStatus) { s.UpdatedReplicas = 1 }, false},
		"two revisions":       {func(s *appsv1.StatefulSetStatus) { s.CurrentRevision = "a" }, false},
	} {
		servers := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Generation: 3}, Status: *finished.DeepCopy()}
		test.change(&servers.Status)
		status, is := statusOf(pegasus(), servers)
		if is != test.want || meta.IsStatusConditionTrue(status.Conditions, v1.ConditionReady) != test.want ||
			meta.IsStatusConditionTrue(status.Conditions, v1.ConditionProgressing) == test.want || status.ObservedGeneration != 2 {
			t.Errorf("%s: finished is %v, want %v; the status is %+v", name, is, test.want, status)
		}
	}
	if _, is := statusOf(pegasus(), nil); is {
		t.Error("a missing StatefulSet is finished")
	}
}
