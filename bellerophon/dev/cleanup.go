package dev

import (
	"context"
	"errors"
	"fmt"

	"github.com/bellerophon-io/bellerophon/bellerophon/dev/contract"
	"github.com/bellerophon-io/bellerophon/bellerophon/dev/manifests"
	"github.com/bellerophon-io/bellerophon/controller"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
)

// cleanUp deletes the Specs of an application with everything that they own, and waits until all of it is gone, also the
// pods. The cluster's garbage collector deletes in the foreground: it finishes although this process ends.
func cleanUp(ctx context.Context, client kubernetes.Interface, named *manifests.Manifests, namespace, application string) error {
	err := errors.Join(deleteNamed(ctx, client, named, namespace, application), deleteSpecs(ctx, client, namespace, application))
	if err != nil {
		return fmt.Errorf("%w; delete the rest with: kubectl delete configmap %s --namespace %s --cascade=foreground", err, application, namespace)
	}
	return nil
}

// deleteNamed deletes the objects of the devfile that the Specs cannot own: of other namespaces, and without namespaces.
func deleteNamed(ctx context.Context, client kubernetes.Interface, named *manifests.Manifests, namespace, application string) error {
	if named == nil {
		return nil
	}
	config, err := client.CoreV1().ConfigMaps(namespace).Get(ctx, contract.StatusName(application), metav1.GetOptions{})
	if err != nil {
		return controller.IgnoreNotFound(err)
	}
	status, err := contract.StatusOf(config)
	if err != nil {
		return err
	}
	var failures []error
	for _, object := range status.Objects {
		if object.Namespace == namespace {
			continue
		}
		if err := named.Delete(ctx, object); err != nil {
			failures = append(failures, fmt.Errorf("delete %s %s: %w", object.Kind, object.Name, err))
		}
	}
	return errors.Join(failures...)
}

// deleteSpecs deletes the Specs, and waits until they are gone.
func deleteSpecs(ctx context.Context, client kubernetes.Interface, namespace, application string) error {
	configs := client.CoreV1().ConfigMaps(namespace)
	found, err := configs.Get(ctx, application, metav1.GetOptions{})
	if err != nil {
		return controller.IgnoreNotFound(err)
	}
	if !contract.IsSpecs(found) {
		return nil // Another program made it.
	}
	foreground := metav1.DeletePropagationForeground
	if err := configs.Delete(ctx, application, metav1.DeleteOptions{PropagationPolicy: &foreground}); err != nil {
		return controller.IgnoreNotFound(err)
	}
	events, err := configs.Watch(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("metadata.name", application).String(), ResourceVersion: found.ResourceVersion,
	})
	if err != nil {
		return fmt.Errorf("wait for the end of %s: %w", application, err)
	}
	defer events.Stop()
	for {
		select {
		case event, open := <-events.ResultChan():
			switch {
			case !open || event.Type == watch.Error:
				return fmt.Errorf("wait for the end of %s: the watch has ended", application)
			case event.Type == watch.Deleted:
				return nil
			}
		case <-ctx.Done():
			return fmt.Errorf("wait for the end of %s: %w", application, context.Cause(ctx))
		}
	}
}
