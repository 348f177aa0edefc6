package webhook_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/controller/webhook"
	"github.com/bellerophon-io/bellerophon/operators"
	admissionv1 "k8s.io/api/admission/v1"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	"k8s.io/client-go/rest"
)

// A server validates heroes, sets their defaults, and converts them between two versions. It issues its own
// certificate, and writes its configurations itself.
func Example() {
	var config *rest.Config // of your cluster, such as rest.InClusterConfig returns
	_ = func() error {
		return runWebhooks(context.Background(), config, webhook.Options{Service: "heroes/webhooks"})
	}
}

// A server runs beside the controllers of a manager, which serves its metrics.
func ExampleServer_Run() {
	var config *rest.Config
	_ = func(ctx context.Context, reconcile operators.Reconciler) error {
		manager, err := controller.NewManager(config, types(), controller.Options{})
		if err != nil {
			return err
		}
		if err := manager.Add("heroes", reconcile, controller.For(&Hero{})); err != nil {
			return err
		}
		server, err := webhook.New(config, manager.Scheme(), webhook.Options{
			Service:  "heroes/webhooks",
			Registry: manager.Registry(),
		})
		if err != nil {
			return err
		}
		if err := webhook.Validate(server, validate); err != nil {
			return err
		}
		if err := manager.AddRunnable(controller.Runnable{Name: "webhooks", Run: server.Run}); err != nil {
			return err
		}
		return manager.Run(ctx)
	}
}

// Validate takes functions of subresources, too. The request has the objects that the API server sends.
func ExampleSubresource() {
	_ = func(server *webhook.Server) error {
		return webhook.Validate(server, func(_ context.Context, request webhook.Request[*autoscalingv1.Scale]) error {
			if request.New.Spec.Replicas > 10 {
				return fmt.Errorf("%s may have at most 10 replicas", request.Name)
			}
			return nil
		}, webhook.Subresource(&appsv1.Deployment{}, "scale"))
	}
}

// runWebhooks runs the webhooks of heroes until ctx ends.
func runWebhooks(ctx context.Context, config *rest.Config, options webhook.Options) error {
	server, err := webhook.New(config, types(), options)
	if err != nil {
		return err
	}
	err = errors.Join(
		webhook.Validate(server, validate),
		webhook.Default(server, setDefaults),
		webhook.Convert(server, toV2, toV1),
	)
	if err != nil {
		return err
	}
	return server.Run(ctx)
}

// validate allows at most two riders, and no change of the horse.
func validate(_ context.Context, request webhook.Request[*Hero]) error {
	switch hero := request.New; {
	case hero.Spec.Riders > 2:
		return fmt.Errorf("%s carries %d riders; at most 2 are allowed", hero.Spec.Horse, hero.Spec.Riders)
	case request.Operation == admissionv1.Update && hero.Spec.Horse != request.Old.Spec.Horse:
		return errors.New("the horse of a hero cannot be changed")
	case hero.Spec.Riders == 0:
		request.Warn("%s has no riders", hero.Spec.Horse)
	}
	return nil
}

// setDefaults gives a hero a horse.
func setDefaults(_ context.Context, hero *Hero) error {
	if hero.Spec.Horse == "" {
		hero.Spec.Horse = "pegasus"
	}
	return nil
}
