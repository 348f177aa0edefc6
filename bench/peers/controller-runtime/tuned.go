package main

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// tunedWorkers are reconciles at once, where WORKERS does not say: each mostly waits
	// for the API server.
	tunedWorkers = 32
	// tunedParallel are children at once within a reconcile: all three.
	tunedParallel = 3
)

// tune sets what the documentation offers, and returns how many children to write at once:
// the cache holds only children that have the operator's labels, and no managed fields,
// which nobody reads; and reconciles run at the same time.
func tune(options *ctrl.Options) (parallel int) {
	ours := cache.ByObject{Label: labels.SelectorFromSet(labels.Set{labelName: appName, labelManagedBy: managedBy})}
	options.Cache = cache.Options{
		DefaultTransform: cache.TransformStripManagedFields(),
		ByObject: map[client.Object]cache.ByObject{
			&corev1.ConfigMap{}:   ours,
			&corev1.Service{}:     ours,
			&appsv1.StatefulSet{}: ours,
		},
	}
	options.Client.Cache = &client.CacheOptions{EnableReadYourWritesConsistency: new(true)}
	options.Controller.MaxConcurrentReconciles = tunedWorkers
	return tunedParallel
}
