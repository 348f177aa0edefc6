package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/bellerophon-io/bellerophon/bench/manykinds"
	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/operators"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// The label of all ConfigMaps, and the key of their data.
const (
	labelManagedBy = "app.kubernetes.io/managed-by"
	managedBy      = "bellerophon"
	keyColour      = "colour"
)

// keptConfig is the part of a ConfigMap that the cache keeps: the owner and the owned field.
type keptConfig struct {
	metav1.ObjectMeta
	colour string
}

// GetObjectKind returns an empty kind, because the Go type identifies the kind.
func (*keptConfig) GetObjectKind() schema.ObjectKind { return schema.EmptyObjectKind }

// DeepCopyObject returns a deep copy.
func (c *keptConfig) DeepCopyObject() runtime.Object { return &keptConfig{*c.DeepCopy(), c.colour} }

func keepConfig(whole *corev1.ConfigMap) *keptConfig {
	return &keptConfig{colour: whole.Data[keyColour]}
}

// reconciler keeps a ConfigMap and the status of each object of the i-th kind.
type reconciler[K any] struct {
	client *controller.Client
	kind   schema.GroupVersionKind
}

// addTo adds the controller of the i-th kind. All controllers share one watch of ConfigMaps.
func addTo[K any](manager *controller.Manager, i int) error {
	r := &reconciler[K]{manager.Client(), manykinds.GroupVersion.WithKind(manykinds.Kind(i))}
	return manager.Add(strings.ToLower(r.kind.Kind), r.reconcile,
		controller.For(&manykinds.Object[K]{}, controller.Plural(manykinds.Plural(i))),
		controller.Owns(&keptConfig{}, controller.Project(keepConfig), controller.LabelSelector(labelManagedBy+"="+managedBy)),
		controller.IgnoreEchoes(), // One call does everything that the state allows.
	)
}

func (r *reconciler[K]) reconcile(ctx context.Context, request operators.Request) (time.Duration, error) {
	object, err := controller.Get[*manykinds.Object[K]](ctx, r.client, request.NamespacedName)
	if err != nil || object.DeletionTimestamp != nil {
		return 0, controller.IgnoreNotFound(err) // The garbage collector deletes the ConfigMap.
	}
	if err := r.ensureConfig(ctx, object); err != nil {
		return 0, err
	}
	if object.Status.ObservedGeneration == object.Generation {
		return 0, nil
	}
	changed := object.DeepCopy()
	changed.Status.ObservedGeneration = object.Generation
	_, err = controller.PatchStatus(ctx, r.client, changed, controller.MergeFrom(object))
	return 0, controller.IgnoreNotFound(err)
}

// ensureConfig creates or repairs the ConfigMap of an object, with one write at most.
func (r *reconciler[K]) ensureConfig(ctx context.Context, object *manykinds.Object[K]) error {
	want := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: object.Namespace, Name: object.Name, Labels: map[string]string{labelManagedBy: managedBy},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(object, r.kind)},
		},
		Data: map[string]string{keyColour: object.Spec.Colour},
	}
	kept, err := controller.Get[*keptConfig](ctx, r.client, types.NamespacedName{Namespace: want.Namespace, Name: want.Name})
	switch {
	case apierrors.IsNotFound(err):
		_, err = controller.Create(ctx, r.client, want)
	case err != nil:
	case !metav1.IsControlledBy(kept, object):
		err = operators.Terminal(fmt.Errorf("ConfigMap %s/%s belongs to another owner", kept.Namespace, kept.Name))
	case kept.colour != object.Spec.Colour:
		_, err = controller.Patch(ctx, r.client, want, controller.StrategicMerge())
	}
	return err
}
