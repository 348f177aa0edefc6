package main

import (
	"cmp"
	"context"

	"github.com/bellerophon-io/bellerophon/controller"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
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
		controller.Watches(&corev1.ResourceQuota{}, nil, controller.MapChange(disturbed)))
}

// disturbed maps a ResourceQuota to its namespace, unless only its status has changed.
func disturbed(_ context.Context, _ *controller.Client, change controller.ChangeOf[*corev1.ResourceQuota]) []types.NamespacedName {
	if change.Old != nil && change.New != nil && equality.Semantic.DeepEqual(change.Old.Spec, change.New.Spec) {
		return nil // The status shows what is used, and changes with each Pod.
	}
	return []types.NamespacedName{{Name: cmp.Or(change.New, change.Old).Namespace}}
}
