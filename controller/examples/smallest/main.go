// Smallest is the smallest useful operator: a Deployment with the label expose=true gets a Service of its
// name. The Service is repaired after a change, and deleted with the Deployment.
//
//	go run ./controller/examples/smallest
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/bellerophon-io/bellerophon/controller"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "smallest:", err)
		os.Exit(1) //nolint:gocritic // what is deferred ends with the process.
	}
}

func run(ctx context.Context) error {
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG")) // Without KUBECONFIG: the cluster that it runs in.
	if err != nil {
		return err
	}
	manager, err := controller.NewManager(config, scheme.Scheme, controller.Options{})
	if err != nil {
		return err
	}
	expose := controller.TypedReconciler[*appsv1.Deployment]{
		Reconcile: func(ctx context.Context, deployment *appsv1.Deployment) (controller.Result, error) {
			service := &corev1.Service{
				ObjectMeta: metav1.ObjectMeta{Namespace: deployment.Namespace, Name: deployment.Name},
				Spec:       corev1.ServiceSpec{Selector: deployment.Spec.Selector.MatchLabels, Ports: []corev1.ServicePort{{Port: 80}}},
			}
			if err := controller.SetControllerReference(manager.Client(), deployment, service); err != nil {
				return controller.Result{}, err
			}
			_, err := controller.Apply[*corev1.Service](ctx, manager.Client(), controller.ApplyConfigurationOf(service))
			return controller.Result{}, err
		},
	}
	if err := manager.Add("expose", controller.Typed(manager.Client(), expose),
		controller.For(&appsv1.Deployment{}, controller.LabelSelector("expose=true")), controller.Owns(&corev1.Service{})); err != nil {
		return err
	}
	return manager.Run(ctx)
}
