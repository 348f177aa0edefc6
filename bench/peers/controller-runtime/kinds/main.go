// Command kinds is the operator of the scenario kinds on controller-runtime: one manager with a controller for
// each of many kinds. It has the environment and does the work that bench/contract.md asks of such a program.
// Its options are the options of the operator with --equal, as far as they concern this work.
package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/bellerophon-io/bellerophon/bellerophon/footprint"
	"github.com/bellerophon-io/bellerophon/bellerophon/processors"
	"github.com/bellerophon-io/bellerophon/bench/peers/controller-runtime/connections"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// allWorkers is the number of concurrent reconciles of all controllers, unless WORKERS gives one. Workers
// belong to one controller, so each controller has its share. Idle workers take memory.
const allWorkers = 32

func main() {
	ctrl.SetLogger(klog.NewKlogr())
	ctx := ctrl.SetupSignalHandler()
	err := processors.Govern(ctx, func(ctx context.Context) error { return footprint.Trim(ctx, run) })
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	all := kinds()
	n, err := number("KINDS", len(all))
	if err != nil {
		return err
	}
	workers := allWorkers
	if os.Getenv("WORKERS") != "" {
		if workers, err = number("WORKERS", 1024); err != nil {
			return err
		}
	}
	types := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(types); err != nil {
		return err
	}
	metav1.AddToGroupVersion(types, groupVersion)
	grace := 8 * time.Second // The default is longer than the contract allows.
	options := ctrl.Options{
		Scheme:                  types,
		Metrics:                 metricsserver.Options{BindAddress: "127.0.0.1:" + os.Getenv("METRICS_PORT")},
		HealthProbeBindAddress:  "0",
		GracefulShutdownTimeout: &grace,
		Client:                  client.Options{Cache: &client.CacheOptions{EnableReadYourWritesConsistency: new(true)}},
		Cache: cache.Options{ByObject: map[client.Object]cache.ByObject{
			&corev1.ConfigMap{}: {Label: labels.SelectorFromSet(labels.Set{labelManagedBy: managedBy}), Transform: keepConfig},
		}},
	}
	options.Controller.MaxConcurrentReconciles = (workers + n - 1) / n
	for i, kind := range all[:n] {
		kind.register(types, i)
		kind.keep(&options.Cache)
	}
	config, err := ctrl.GetConfig() // It sets no client-side rate limit.
	if err != nil {
		return err
	}
	if options.Client.HTTPClient, err = connections.Client(config); err != nil {
		return err
	}
	manager, err := ctrl.NewManager(config, options)
	if err != nil {
		return err
	}
	for i, kind := range all[:n] {
		if err := kind.addTo(manager, i); err != nil {
			return err
		}
	}
	return manager.Start(ctx)
}

// number reads a number from the environment.
func number(name string, most int) (int, error) {
	text := os.Getenv(name)
	value, err := strconv.Atoi(text)
	if err != nil || value < 1 || value > most {
		return 0, fmt.Errorf("%s is %q; give a number from 1 to %d", name, text, most)
	}
	return value, nil
}
