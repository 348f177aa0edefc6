package main

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// The label of all ConfigMaps, and the key of their data.
const (
	labelManagedBy = "app.kubernetes.io/managed-by"
	managedBy      = "bellerophon"
	keyColour      = "colour"
)

// keepConfig keeps the owner and the owned field of a ConfigMap.
func keepConfig(whole any) (any, error) {
	config, ok := whole.(*corev1.ConfigMap)
	if !ok {
		return whole, nil
	}
	kept := &corev1.ConfigMap{ObjectMeta: keptMeta(config)}
	if colour, has := config.Data[keyColour]; has {
		kept.Data = map[string]string{keyColour: colour}
	}
	return kept, nil
}

// reconciler keeps a ConfigMap and the status of each object of a kind.
type reconciler[K any] struct {
	client client.Client
	kind   schema.GroupVersionKind
}

// addTo adds the controller of the i-th kind. All controllers share one watch of ConfigMaps.
func addTo[K any](manager ctrl.Manager, i int) error {
	r := &reconciler[K]{manager.GetClient(), kindOf(i)}
	return ctrl.NewControllerManagedBy(manager).
		Named(strings.ToLower(r.kind.Kind)).
		For(&object[K]{}).
		Owns(&corev1.ConfigMap{}, builder.WithPredicates(notCreated())).
		Complete(r)
}

// notCreated drops create events of ConfigMaps: their owner created them, or is reconciled at the start anyway.
func notCreated() predicate.Predicate {
	return predicate.Funcs{CreateFunc: func(event.CreateEvent) bool { return false }}
}

// Reconcile creates or repairs the ConfigMap of an object, and then writes its status.
func (r *reconciler[K]) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	held := &object[K]{}
	if err := r.client.Get(ctx, request.NamespacedName, held); err != nil || held.DeletionTimestamp != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err) // The garbage collector deletes the ConfigMap.
	}
	if err := r.ensureConfig(ctx, held); err != nil {
		return ctrl.Result{}, err
	}
	if held.Status.ObservedGeneration == held.Generation {
		return ctrl.Result{}, nil
	}
	before := held.DeepCopy()
	held.Status.ObservedGeneration = held.Generation
	return ctrl.Result{}, client.IgnoreNotFound(r.client.Status().Patch(ctx, held, client.MergeFrom(before)))
}

// ensureConfig creates or repairs the ConfigMap of an object, with one write at most.
func (r *reconciler[K]) ensureConfig(ctx context.Context, of *object[K]) error {
	config := &corev1.ConfigMap{}
	err := r.client.Get(ctx, client.ObjectKeyFromObject(of), config)
	switch {
	case apierrors.IsNotFound(err):
		return r.client.Create(ctx, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: of.Namespace, Name: of.Name, Labels: map[string]string{labelManagedBy: managedBy},
				OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(of, r.kind)},
			},
			Data: map[string]string{keyColour: of.Spec.Colour},
		})
	case err != nil:
		return err
	case !metav1.IsControlledBy(config, of):
		return reconcile.TerminalError(fmt.Errorf("ConfigMap %s/%s belongs to another owner", config.Namespace, config.Name))
	case config.Data[keyColour] == of.Spec.Colour:
		return nil
	}
	before := config.DeepCopy()
	config.Data = map[string]string{keyColour: of.Spec.Colour}
	return r.client.Patch(ctx, config, client.MergeFrom(before)) // It sends the difference, so the cache may hold a part.
}
