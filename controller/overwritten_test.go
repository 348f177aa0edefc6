package controller_test

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/cache"
	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/operators"
	"github.com/bellerophon-io/bellerophon/sources/sourcestest"
	"github.com/bellerophon-io/bellerophon/streams"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A child is created, and another client takes its owner away before the watch has reported the
// creation. Both are one event then, which names no owner. The drift must be repaired nevertheless.
func TestAChildThatLosesItsOwnerBeforeItsCreationIsReportedIsRepaired(t *testing.T) {
	stall := controller.Stage{Name: "stall", Run: func(events streams.Stream[streams.Event]) streams.Stream[streams.Event] {
		return streams.MapOnReceive(events, func(batch []streams.Event) ([]streams.Event, error) {
			if slices.ContainsFunc(batch, func(event streams.Event) bool { return event.Key.Name == "stall" }) {
				<-time.After(time.Second) // The debounce coalesces what comes meanwhile.
			}
			return batch, nil
		})
	}}
	inLevelWorld(t, sourcestest.Options{}, controller.Options{Stages: []controller.Stage{stall}}, func(w *levelWorld) {
		var mayCreate atomic.Bool
		creations := 0
		reconcile := func(ctx context.Context, request operators.Request) (time.Duration, error) {
			client := w.manager.Client()
			owner, found := cached[*corev1.ConfigMap](client, request.NamespacedName)
			if !found {
				return 0, nil
			}
			if !mayCreate.Load() {
				return 100 * time.Millisecond, nil
			}
			wanted := secret(request.Name)
			wanted.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(owner, corev1.SchemeGroupVersion.WithKind("ConfigMap"))}
			child, exists := cached[*corev1.Secret](client, request.NamespacedName)
			switch {
			case !exists:
				creations++
				if _, err := controller.Create(ctx, client, wanted); err != nil {
					return 0, err
				}
				return 0, w.server.Update(secret(request.Name)) // The other client.
			case !metav1.IsControlledBy(child, owner):
				repaired := child.DeepCopy()
				repaired.OwnerReferences = wanted.OwnerReferences
				_, err := controller.Patch(ctx, client, repaired, controller.MergeFrom(child))
				return 0, err
			}
			return 0, nil
		}
		w.must(w.manager.Add("children", reconcile, controller.For(&corev1.ConfigMap{}), controller.Owns(&corev1.Secret{})))
		w.create("x")
		w.run()
		w.wait(time.Second)
		w.must(w.server.Create(secret("stall")))
		w.wait(50 * time.Millisecond)
		mayCreate.Store(true)
		w.wait(time.Minute)
		w.reach(cache.Converged, time.Minute)
		child := secret("x")
		w.must(w.server.Get(child))
		if metav1.GetControllerOf(child) == nil || creations != 1 {
			t.Errorf("the child has the owner %v after %d creations, want the one of its creation after one", metav1.GetControllerOf(child), creations)
		}
	})
}
