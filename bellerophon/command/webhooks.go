package command

import (
	"context"

	"github.com/bellerophon-io/bellerophon/bellerophon/operator"
	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/controller/webhook"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/spf13/cobra"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// webhooks are the options of the operator's webhooks, which are off by default.
type webhooks struct {
	service, address, certificates, failurePolicy, role string
}

func (w *webhooks) addTo(command *cobra.Command) {
	flags := command.Flags()
	flags.StringVar(&w.service, "webhook-service", "", "serve webhooks behind this Service, as namespace/name; default no webhooks")
	flags.StringVar(&w.address, "webhook-address", webhook.DefaultAddress, "where to serve webhooks")
	flags.StringVar(&w.certificates, "webhook-certificates", "", "Secret with certificates of another program, such as cert-manager, as namespace/name; default the operator issues them")
	flags.StringVar(&w.role, "webhook-cluster-role", "", "ClusterRole that owns the webhook configuration, which is deleted with it; default none")
	flags.StringVar(&w.failurePolicy, "webhook-failure-policy", string(admissionregistrationv1.Fail), "what happens to objects while webhooks fail: Fail refuses them, Ignore leaves them unchecked")
}

// beside returns a function that runs a manager, and the operator's webhooks if there are any.
func (w *webhooks) beside(manager *controller.Manager, config *rest.Config, options controller.Options, further operator.Kinds) (func(context.Context) error, error) {
	if w.service == "" {
		return manager.Run, nil
	}
	types, err := operator.Scheme()
	if err != nil {
		return nil, err
	}
	server, err := webhook.New(config, types, webhook.Options{
		Service: w.service, Address: w.address, ClusterRole: w.role, Logger: options.Logger, Registry: manager.Registry(),
		Certificates: webhook.Certificates{Secret: w.certificates, External: w.certificates != ""},
	})
	if err != nil {
		return nil, err
	}
	configured := []webhook.Option{webhook.FailurePolicy(admissionregistrationv1.FailurePolicyType(w.failurePolicy))}
	if len(options.Namespaces) > 0 {
		configured = append(configured, webhook.NamespaceSelector(metav1.LabelSelector{
			MatchExpressions: []metav1.LabelSelectorRequirement{{Key: corev1.LabelMetadataName, Operator: metav1.LabelSelectorOpIn, Values: options.Namespaces}},
		}))
	}
	if err := operator.AddWebhooks(server, manager.Client(), further, configured...); err != nil {
		return nil, err
	}
	return func(ctx context.Context) error {
		group := lifecycle.New(ctx)
		group.Go("manager", manager.Run)
		group.Go("webhooks", server.Run)
		return group.Wait()
	}, nil
}
