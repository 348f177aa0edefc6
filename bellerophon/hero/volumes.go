package hero

import (
	"context"
	"fmt"
	"slices"
	"time"

	v1 "github.com/bellerophon-io/bellerophon/bellerophon/api/hero/v1"
	"github.com/bellerophon-io/bellerophon/bellerophon/owned"
	"github.com/bellerophon-io/bellerophon/controller"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// growthFinalizer keeps a hero while its StatefulSet is replaced: meanwhile its pods and volumes have no owner, so that
// the garbage collector would leave them behind. growVolumes adds it, and removes it.
const growthFinalizer = "stable.bellerophon.io/volumes-grow"

// isGrowing reports whether the StatefulSet of a hero is being replaced.
func isGrowing(hero *v1.Bellerophon) bool { return slices.Contains(hero.Finalizers, growthFinalizer) }

// growVolumes makes the volumes as large as the hero asks for. A StatefulSet cannot change its claims, so it is
// replaced; its pods stay and belong to the next one. A problem is about a volume that cannot grow.
func (r *reconciler) growVolumes(ctx context.Context, v *view) error {
	want := v.hero.Spec.Storage.Size
	switch {
	case v.set == nil || len(v.set.Spec.VolumeClaimTemplates) == 0:
		return nil
	case v.set.DeletionTimestamp != nil:
		return waiting("the StatefulSet is replaced")
	}
	if sizeOf(v.set).Cmp(want) >= 0 {
		if isGrowing(v.hero) && v.hasAdopted() {
			return r.setGrowing(ctx, v, false)
		}
		return nil
	}
	// Also claims without a pod: the next pod of their name has them.
	for ordinal := range int32(maxReplicas) {
		name := types.NamespacedName{Namespace: v.hero.Namespace, Name: volumeData + "-" + podName(v.hero, ordinal)}
		claim, err := controller.GetLive[*corev1.PersistentVolumeClaim](ctx, r.client, name)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return fmt.Errorf("reading the volume claim %s: %w", name.Name, err)
		}
		if size := claim.Spec.Resources.Requests[corev1.ResourceStorage]; size.Cmp(want) >= 0 {
			continue
		}
		larger := claim.DeepCopy()
		larger.Spec.Resources.Requests[corev1.ResourceStorage] = want
		if _, err := controller.Patch(ctx, r.client, larger, controller.MergeFrom(claim)); err != nil {
			return problem{reason: "VolumeNotGrown", message: fmt.Sprintf("the volume claim %s cannot grow to the %s of spec.storage.size: %v", name.Name, want.String(), err), recheck: lookAgain}
		}
	}
	if !isGrowing(v.hero) {
		if err := r.setGrowing(ctx, v, true); err != nil {
			return err
		}
	}
	old := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: v.set.Namespace, Name: v.set.Name, UID: v.set.UID, ResourceVersion: v.set.ResourceVersion}}
	if err := controller.Delete(ctx, r.client, old, controller.IfUnchanged(), controller.Propagation(metav1.DeletePropagationOrphan)); controller.IgnoreNotFound(err) != nil {
		return fmt.Errorf("replacing the StatefulSet for larger volumes: %w", err)
	}
	return waiting("the StatefulSet is replaced, because its volumes grow")
}

// sizeOf returns the size of the volumes that a StatefulSet makes.
func sizeOf(set *appsv1.StatefulSet) *resource.Quantity {
	return set.Spec.VolumeClaimTemplates[0].Spec.Resources.Requests.Storage()
}

// hasAdopted reports whether the StatefulSet has all pods that the one before it left.
func (v *view) hasAdopted() bool {
	return v.set != nil && v.set.DeletionTimestamp == nil && v.set.Status.ObservedGeneration >= v.set.Generation &&
		!slices.ContainsFunc(v.pods, v.isOrphan)
}

// setGrowing adds the finalizer, or removes it.
func (r *reconciler) setGrowing(ctx context.Context, v *view, growing bool) error {
	after := v.hero.DeepCopy()
	after.Finalizers = slices.DeleteFunc(after.Finalizers, func(name string) bool { return name == growthFinalizer })
	if growing {
		after.Finalizers = append(after.Finalizers, growthFinalizer)
	}
	written, err := controller.Patch(ctx, r.client, after, controller.MergeFrom(v.hero))
	if err != nil {
		return fmt.Errorf("changing the finalizer %s: %w", growthFinalizer, err)
	}
	v.hero = written
	return nil
}

// endGrowth gives the pods of a deleted hero to a StatefulSet again, which takes them along.
func (r *reconciler) endGrowth(ctx context.Context, hero *v1.Bellerophon) (time.Duration, error) {
	if slices.Contains(hero.Finalizers, metav1.FinalizerOrphanDependents) {
		return 0, nil
	}
	left, again, err := r.advance(ctx, hero, []step{r.adopt})
	if left != nil && err == nil && again == 0 {
		again = lookAgain
	}
	return again, err
}

// adopt returns nil when no pod of the hero is without an owner. It asks the API server for the StatefulSet: an old one
// in the cache would say that the pods have an owner.
func (r *reconciler) adopt(ctx context.Context, v *view) error {
	set, err := controller.GetLive[*owned.StatefulSet](ctx, r.client, nameOf(v.hero))
	switch {
	case controller.IgnoreNotFound(err) != nil:
		return fmt.Errorf("reading the StatefulSet: %w", err)
	case err == nil && v.set != nil && set.UID == v.set.UID && v.hasAdopted(), err != nil && v.set == nil && len(v.pods) == 0:
		return nil
	case err != nil && v.set == nil:
		err := r.keepSet(ctx, v, v.kept())
		if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
			return nil // The pods go with the namespace.
		}
		if err != nil {
			return err
		}
	}
	return waiting("the StatefulSet is replaced")
}

// deleteClaim deletes the volume claim of a pod whose member has left: its data is old from then on. It remains until the
// pod has gone.
func (r *reconciler) deleteClaim(ctx context.Context, v *view, pod string) error {
	name := types.NamespacedName{Namespace: v.hero.Namespace, Name: volumeData + "-" + pod}
	claim, err := controller.GetLive[*corev1.PersistentVolumeClaim](ctx, r.client, name)
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("reading the volume claim %s: %w", name.Name, err)
	case claim.DeletionTimestamp != nil:
		return nil
	}
	if err := controller.Delete(ctx, r.client, claim); controller.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting the volume claim %s: %w", name.Name, err)
	}
	return nil
}
