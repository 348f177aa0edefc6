package controller_test

import (
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/operators"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

// A manager runs a reconciler that gives each Deployment a headless Service of its name.
func ExampleManager() {
	var config *rest.Config // of your cluster, such as rest.InClusterConfig returns
	_ = func() error { return runExpose(context.Background(), config) }
}

// runExpose runs expose on a cluster until ctx ends.
func runExpose(ctx context.Context, config *rest.Config) error {
	manager, err := controller.NewManager(config, scheme.Scheme, controller.Options{})
	if err != nil {
		return err
	}
	err = manager.Add("expose", exposeWith(manager.Client()),
		controller.For(&appsv1.Deployment{}), controller.Owns(&corev1.Service{}))
	if err != nil {
		return err
	}
	return manager.Run(ctx)
}

// exposeWith returns a reconciler that keeps a headless Service for each Deployment.
func exposeWith(client *controller.Client) operators.Reconciler {
	return func(ctx context.Context, request operators.Request) (requeueAfter time.Duration, err error) {
		deployment, err := controller.Get[*appsv1.Deployment](ctx, client, request.NamespacedName)
		if err != nil || deployment.DeletionTimestamp != nil {
			return 0, controller.IgnoreNotFound(err) // The garbage collector deletes the Service.
		}
		selector := deployment.Spec.Selector.MatchLabels
		service, err := controller.Get[*corev1.Service](ctx, client, request.NamespacedName)
		switch {
		case apierrors.IsNotFound(err):
			owner := *metav1.NewControllerRef(deployment, appsv1.SchemeGroupVersion.WithKind("Deployment"))
			_, err = controller.Create(ctx, client, &corev1.Service{
				ObjectMeta: metav1.ObjectMeta{Namespace: request.Namespace, Name: request.Name, OwnerReferences: []metav1.OwnerReference{owner}},
				Spec:       corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone, Selector: selector},
			})
		case err != nil:
		case !metav1.IsControlledBy(service, deployment):
			err = operators.Terminal(fmt.Errorf("service %s belongs to another owner", request))
		case !maps.Equal(service.Spec.Selector, selector):
			repaired := service.DeepCopy() // Objects of the cache must not be changed.
			repaired.Spec.Selector = selector
			_, err = controller.Patch(ctx, client, repaired, controller.MergeFrom(service))
		}
		return 0, err
	}
}
