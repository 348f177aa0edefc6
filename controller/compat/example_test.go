package compat_test

import (
	"context"
	"fmt"

	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/controller/compat"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// webReconciler is a reconciler that was written for controller-runtime.
type webReconciler struct{ client.Client }

func (r *webReconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	web := &appsv1.Deployment{}
	return ctrl.Result{}, client.IgnoreNotFound(r.Get(ctx, request.NamespacedName, web))
}

func (r *webReconciler) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).Named("webs").For(&appsv1.Deployment{}).Owns(&corev1.Service{}).Complete(r)
}

// A program changes the line that makes its manager, and nothing else.
func ExampleNewManager() {
	err := func(ctx context.Context, config *rest.Config) error {
		mgr, err := compat.NewManager(config, ctrl.Options{Scheme: scheme.Scheme}, controller.Options{})
		if err != nil {
			return err
		}
		if err := (&webReconciler{Client: mgr.GetClient()}).SetupWithManager(mgr); err != nil {
			return err
		}
		return mgr.Start(ctx)
	}(context.Background(), nil)
	fmt.Println(err)
	// Output: making a manager: the configuration is nil
}

// A program of Bellerophon takes over one reconciler, with its predicates and event handlers.
func ExampleReconciler() {
	err := func(config *rest.Config) error {
		manager, err := controller.NewManager(config, scheme.Scheme, controller.Options{})
		if err != nil {
			return err
		}
		c, err := compat.Client(manager.Client())
		if err != nil {
			return err
		}
		ofSecret := handler.EnqueueRequestsFromMapFunc(func(_ context.Context, secret client.Object) []reconcile.Request {
			return []reconcile.Request{{NamespacedName: client.ObjectKeyFromObject(secret)}}
		})
		return manager.Add("webs", compat.Reconciler(&webReconciler{Client: c}),
			controller.For(&appsv1.Deployment{}, compat.When(predicate.GenerationChangedPredicate{})),
			controller.Owns(&corev1.Service{}),
			controller.Watches(&corev1.Secret{}, nil, compat.Handler(ofSecret)))
	}(&rest.Config{Host: "https://127.0.0.1:6443"})
	fmt.Println(err)
	// Output: <nil>
}
