// Heroes is an operator for a custom resource: with a status, a child and something outside of the cluster
// that a finalizer cleans up.
//
//	kubectl apply -f controller/examples/heroes/crd
//	go run ./controller/examples/heroes FOLDER
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/controller/examples/heroes/api"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "heroes: give the folder of the stable")
		os.Exit(2) //nolint:gocritic // what is deferred ends with the process.
	}
	if err := run(ctx, os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "heroes:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, stable string) error {
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG")) // Without KUBECONFIG: the cluster that it runs in.
	if err != nil {
		return err
	}
	manager, err := newManager(config, stable)
	if err != nil {
		return err
	}
	return manager.Run(ctx)
}

// newManager makes a manager with the one controller.
func newManager(config *rest.Config, stable string) (*controller.Manager, error) {
	kinds := runtime.NewScheme()
	if err := scheme.AddToScheme(kinds); err != nil { // The kinds of Kubernetes itself.
		return nil, err
	}
	if err := api.AddToScheme(kinds); err != nil {
		return nil, err
	}
	manager, err := controller.NewManager(config, kinds, controller.Options{
		Workers: 8,
		Timeout: 30 * time.Second,
	})
	if err != nil {
		return nil, err
	}
	h := &heroes{client: manager.Client(), stable: stable}
	return manager, manager.Add("heroes",
		controller.Typed(manager.Client(), controller.TypedReconciler[*api.Hero]{Reconcile: h.reconcile}),
		controller.For(&api.Hero{}, controller.When(controller.GenerationChanged)),
		controller.Owns(&corev1.ConfigMap{}),
		controller.Finalizer("example.com/stable", h.release),
		controller.PausedBy("example.com/paused"),
	)
}
