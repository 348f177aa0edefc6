package controller_test

import (
	"context"
	"time"

	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/operators"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

// One of several replicas reconciles the Pods. Each of them counts the Nodes and serves requests.
func ExampleLeaderElection() {
	run := func(ctx context.Context, config *rest.Config, reconcile, count operators.Reconciler, serve func(ctx context.Context) error) error {
		manager, err := controller.NewManager(config, scheme.Scheme, controller.Options{
			LeaderElection: controller.LeaderElection{Lease: "my-operator/leader", LeaseDuration: 10 * time.Second},
		})
		if err != nil {
			return err
		}
		if err := manager.Add("pods", reconcile, controller.For(&corev1.Pod{})); err != nil {
			return err
		}
		if err := manager.Add("nodes", count, controller.For(&corev1.Node{}), controller.EveryReplica()); err != nil {
			return err
		}
		if err := manager.AddRunnable(controller.Runnable{Name: "server", Run: serve, EveryReplica: true}); err != nil {
			return err
		}
		return manager.Run(ctx)
	}
	_ = run // Its callers have a cluster.
}
