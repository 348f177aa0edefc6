package main

import (
	"context"
	"errors"

	v1 "github.com/bellerophon-io/bellerophon/bellerophon/api/simple/v1"
	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// equalize sets, in addition to tune, what the public API offers for what Bellerophon does: the cache
// keeps only the fields of children that a reconcile compares.
func equalize(options *ctrl.Options) {
	for object, selected := range options.Cache.ByObject {
		switch object.(type) {
		case *corev1.ConfigMap:
			selected.Transform = keep(keepConfig)
		case *corev1.Service:
			selected.Transform = keep(keepService)
		case *appsv1.StatefulSet:
			selected.Transform = keep(keepServers)
		}
		options.Cache.ByObject[object] = selected
	}
	options.Cache.ByObject[&v1.BellerophonSimple{}] = cache.ByObject{Transform: keep(func(hero *v1.BellerophonSimple) *v1.BellerophonSimple {
		return &v1.BellerophonSimple{ObjectMeta: keptMeta(hero), Spec: hero.Spec, Status: hero.Status}
	})}
}

// keep returns a transform for objects of one type. Tombstones pass unchanged.
func keep[T client.Object](of func(T) T) func(any) (any, error) {
	return func(whole any) (any, error) {
		if object, ok := whole.(T); ok {
			return of(object), nil
		}
		return whole, nil
	}
}

func keptMeta(of client.Object) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name: of.GetName(), Namespace: of.GetNamespace(), UID: of.GetUID(), ResourceVersion: of.GetResourceVersion(),
		Generation: of.GetGeneration(), CreationTimestamp: of.GetCreationTimestamp(), DeletionTimestamp: of.GetDeletionTimestamp(),
		Labels: of.GetLabels(), OwnerReferences: of.GetOwnerReferences(),
	}
}

func keepConfig(whole *corev1.ConfigMap) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: keptMeta(whole), Data: whole.Data}
}

func keepService(whole *corev1.Service) *corev1.Service {
	return &corev1.Service{ObjectMeta: keptMeta(whole), Spec: corev1.ServiceSpec{
		Selector: whole.Spec.Selector, PublishNotReadyAddresses: whole.Spec.PublishNotReadyAddresses, Ports: whole.Spec.Ports,
	}}
}

func keepServers(whole *appsv1.StatefulSet) *appsv1.StatefulSet {
	pods := &whole.Spec.Template.Spec
	kept := &appsv1.StatefulSet{ObjectMeta: keptMeta(whole)}
	kept.Spec.Replicas = whole.Spec.Replicas
	kept.Spec.Template.Labels, kept.Spec.Template.Annotations = whole.Spec.Template.Labels, whole.Spec.Template.Annotations
	kept.Spec.Template.Spec = corev1.PodSpec{
		AutomountServiceAccountToken: pods.AutomountServiceAccountToken, SecurityContext: pods.SecurityContext, Volumes: pods.Volumes,
	}
	for i := range pods.Containers {
		if from := &pods.Containers[i]; from.Name == "server" {
			kept.Spec.Template.Spec.Containers = []corev1.Container{{
				Name: from.Name, Image: from.Image, Ports: from.Ports, SecurityContext: from.SecurityContext, VolumeMounts: from.VolumeMounts,
			}}
		}
	}
	status := &whole.Status
	kept.Status = appsv1.StatefulSetStatus{
		ObservedGeneration: status.ObservedGeneration, Replicas: status.Replicas, ReadyReplicas: status.ReadyReplicas,
		UpdatedReplicas: status.UpdatedReplicas, CurrentRevision: status.CurrentRevision, UpdateRevision: status.UpdateRevision,
	}
	return kept
}

// errDiffers means that a child in the cache differs from what its owner asks for. The cache holds
// only a part of the child, so the repair begins with a read from the API server.
var errDiffers = errors.New("the child in the cache differs")

// compare creates a child that the cache does not hold, and compares one that it does.
func compare(ctx context.Context, r *reconciler, child client.Object, mutate func() error) error {
	err := r.Get(ctx, client.ObjectKeyFromObject(child), child)
	if apierrors.IsNotFound(err) {
		return create(ctx, r, child, mutate)
	}
	if err != nil {
		return err
	}
	before := child.DeepCopyObject()
	if err := mutate(); err != nil {
		return err
	}
	if !equality.Semantic.DeepEqual(before, child) {
		return errDiffers
	}
	return nil
}

func create(ctx context.Context, r *reconciler, child client.Object, mutate func() error) error {
	if err := mutate(); err != nil {
		return err
	}
	return r.Create(ctx, child)
}

// newObjects is the field selector of objects whose status shows no reconcile yet.
var newObjects = client.MatchingFields{"status.observedGeneration": ""}

// createFirst creates the children of new objects while the caches fill. Objects come in pages. All
// reads and writes go to the API server. An error is left to the reconcile that follows.
func (r *reconciler) createFirst(ctx context.Context) {
	first := &reconciler{Client: r.live, live: r.live, parallel: r.parallel, creates: true, unsettled: map[client.ObjectKey]rollout{}}
	var group errgroup.Group
	group.SetLimit(tunedWorkers)
	for next := ""; ; {
		page := &v1.BellerophonSimpleList{}
		if err := r.live.List(ctx, page, newObjects, client.Limit(500), client.Continue(next)); err != nil {
			break
		}
		for i := range page.Items {
			hero := page.Items[i].DeepCopy()
			if hero.DeletionTimestamp.IsZero() {
				group.Go(func() error {
					_, _, _ = first.ensureAll(ctx, hero)
					return nil
				})
			}
		}
		if next = page.Continue; next == "" {
			break
		}
	}
	_ = group.Wait()
}
