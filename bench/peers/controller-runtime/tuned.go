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
	// tunedWorkers is the number of concurrent reconciles, unless WORKERS gives one. A reconcile
	// mostly waits for the API server.
	tunedWorkers = 32
	// tunedParallel is how many children a reconcile writes concurrently: all three.
	tunedParallel = 3
)

// tune sets the options that the documentation offers, and returns how many children to write
// concurrently. The cache holds only children with the operator's labels, without managed fields,
// which the operator does not read. Reconciles run concurrently, and their reads wait for own
// writes.
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
