package main

import (
	"testing"
	"testing/synctest"
	"time"

	v1 "github.com/bellerophon-io/bellerophon/bellerophon/api/simple/v1"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func TestTheFirstStatusOfANewObjectIsHeldBackTwiceAsLongAsTheStatefulSetControllerTakes(t *testing.T) {
	for _, step := range []struct {
		name    string
		pace    *pace
		took    time.Duration
		already int64 // the status shows this generation
		want    time.Duration
	}{
		{name: "without a pace", took: 5 * time.Second, want: time.Second},
		{name: "an idle API server", pace: &pace{}, took: 50 * time.Millisecond, want: time.Second},
		{name: "a busy one", pace: &pace{}, took: 5 * time.Second, want: 10 * time.Second},
		{name: "an hour", pace: &pace{}, took: time.Hour, want: 2 * time.Minute},
		{name: "an object with a status", pace: &pace{}, took: 5 * time.Second, already: 1, want: time.Second},
	} {
		t.Run(step.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := &reconciler{pace: step.pace, unsettled: map[client.ObjectKey]rollout{}}
				first := &v1.BellerophonSimple{ObjectMeta: metav1.ObjectMeta{Name: "pegasus", Generation: 1}}
				if held := r.wait(first); held != time.Second {
					t.Errorf("before any rollout it is held back for %v, want a second", held)
				}
				<-time.After(step.took)
				servers := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Generation: 1}}
				r.follow(client.ObjectKeyFromObject(first), servers) // It has not followed yet.
				servers.Status.ObservedGeneration = 1
				r.follow(client.ObjectKeyFromObject(first), servers)
				second := &v1.BellerophonSimple{ObjectMeta: metav1.ObjectMeta{Name: "arion", Generation: 2}, Status: v1.BellerophonSimpleStatus{ObservedGeneration: step.already}}
				if held := r.wait(second); held != step.want {
					t.Errorf("it is held back for %v, want %v", held, step.want)
				}
				<-time.After(step.want)
				if held := r.wait(second); held != 0 {
					t.Errorf("after %v it is held back for %v more", step.want, held)
				}
			})
		})
	}
}
