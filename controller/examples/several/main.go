// Several runs two controllers in one manager. They share watches, workers and connections.
//
//   - quota gives each namespace with the label team a ResourceQuota.
//   - registry copies the Secret default/registry into each such namespace, whenever the Secret changes.
//
// Run it with
//
//	go run ./controller/examples/several
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/bellerophon-io/bellerophon/controller"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "several:", err)
		os.Exit(1) //nolint:gocritic // what is deferred ends with the process.
	}
}

func run(ctx context.Context) error {
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG")) // Without KUBECONFIG: the cluster that it runs in.
	if err != nil {
		return err
	}
	manager, err := controller.NewManager(config, scheme.Scheme, controller.Options{
		MetricsAddress: "127.0.0.1:0",
		HealthAddress:  "127.0.0.1:0",
	})
	if err != nil {
		return err
	}
	if err := addQuota(manager); err != nil {
		return err
	}
	if err := addRegistry(manager); err != nil {
		return err
	}
	return manager.Run(ctx)
}
