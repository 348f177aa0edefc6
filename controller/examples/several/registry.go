package main

import (
	"context"

	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/streams"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
)

// original is the Secret that the controller registry copies.
var original = types.NamespacedName{Namespace: "default", Name: "registry"}

// namespaceOf maps an object to its namespace.
func namespaceOf[T streams.Object](_ context.Context, _ *controller.Client, object T) []types.NamespacedName {
	return []types.NamespacedName{{Name: object.GetNamespace()}}
}

// concerned maps the original to all namespaces of teams, and a copy to its namespace.
func concerned(ctx context.Context, client *controller.Client, secret *corev1.Secret) (names []types.NamespacedName) {
	if secret.Name != original.Name {
		return nil
	}
	if secret.Namespace != original.Namespace {
		return namespaceOf(ctx, client, secret)
	}
	namespaces, err := controller.List[*corev1.Namespace](ctx, client)
	if err != nil {
		return nil // The kind is watched, so reading it cannot fail.
	}
	for _, namespace := range namespaces {
		names = append(names, types.NamespacedName{Name: namespace.Name})
	}
	return names
}

func addRegistry(manager *controller.Manager) error {
	client := manager.Client()
	registry := controller.TypedReconciler[*corev1.Namespace]{
		Reconcile: func(ctx context.Context, namespace *corev1.Namespace) (controller.Result, error) {
			secret, err := controller.Get[*corev1.Secret](ctx, client, original)
			if err != nil {
				return controller.Result{}, controller.IgnoreNotFound(err)
			}
			copied := applycorev1.Secret(original.Name, namespace.Name).WithType(secret.Type).WithData(secret.Data)
			_, err = controller.Apply[*corev1.Secret](ctx, client, copied)
			return controller.Result{}, err
		},
	}
	return manager.Add("registry", controller.Typed(client, registry),
		controller.For(&corev1.Namespace{}, teams), controller.Watches(&corev1.Secret{}, controller.Map(client, concerned)))
}
