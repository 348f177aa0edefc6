package hero

import (
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestAHeroAdoptsWhatADeletedOneLeftWithoutARestart(t *testing.T) {
	w := newWorld(t)
	w.create("bellerophon", map[string]any{"replicas": int64(3)})
	first := w.ready()
	w.put("horse", "pegasus")
	w.kubelet.mark()
	orphan := metav1.DeletePropagationOrphan
	if err := w.heroes.Delete(w.ctx, "bellerophon", metav1.DeleteOptions{PropagationPolicy: &orphan}); err != nil {
		t.Fatal(err)
	}
	sets := w.core.AppsV1().StatefulSets(w.namespace)
	w.eventually("the StatefulSet has no owner", func() error {
		set, err := sets.Get(w.ctx, "bellerophon", metav1.GetOptions{})
		if err == nil && metav1.GetControllerOf(set) != nil {
			err = fmt.Errorf("its owners are %+v", set.OwnerReferences)
		}
		return err
	})
	w.eventually("the hero is gone", func() error {
		if _, err := w.heroes.Get(w.ctx, "bellerophon", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("it is there: %w", err)
		}
		return nil
	})
	w.create("bellerophon", map[string]any{"replicas": int64(3)})
	second := w.ready()
	set, err := sets.Get(w.ctx, "bellerophon", metav1.GetOptions{})
	if err != nil || !metav1.IsControlledBy(set, second) {
		t.Errorf("the StatefulSet is %+v, %v", set, err)
	}
	if second.UID == first.UID || second.Status.Cluster != first.Status.Cluster || w.kubelet.fewest() < 3 {
		t.Errorf("the cluster was %s and is %s, and only %d members ran at a time", first.Status.Cluster, second.Status.Cluster, w.kubelet.fewest())
	}
	w.wantHorse()
}
