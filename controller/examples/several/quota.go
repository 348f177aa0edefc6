package main

import (
	"context"

	"github.com/bellerophon-io/bellerophon/controller"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
)

// teams selects the namespaces that belong to a team.
var teams = controller.LabelSelector("team")

func addQuota(manager *controller.Manager) error {
	client := manager.Client()
	quota := controller.TypedReconciler[*corev1.Namespace]{
		Reconcile: func(ctx context.Context, namespace *corev1.Namespace) (controller.Result, error) {
			wanted := applycorev1.ResourceQuota("team", namespace.Name).
				WithSpec(applycorev1.ResourceQuotaSpec().WithHard(corev1.ResourceList{corev1.ResourcePods: resource.MustParse("100")}))
			_, err := controller.Apply[*corev1.ResourceQuota](ctx, client, wanted, controller.Force()) // A change by others is undone.
			return controller.Result{}, err
		},
	}
	return manager.Add("quota", controller.Typed(client, quota),
		controller.For(&corev1.Namespace{}, teams),
		// Without controller.GenerationChanged: a ResourceQuota has no generation.
		controller.Watches(&corev1.ResourceQuota{}, controller.Map(client, namespaceOf[*corev1.ResourceQuota])))
}
