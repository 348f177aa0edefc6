package tracing_test

import (
	"context"
	"errors"

	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/controller/tracing"
	"github.com/bellerophon-io/bellerophon/operators"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

// Example runs a manager whose attempts are traces. The exporter is the one of your backend, such as
// otlptracegrpc.
func Example() {
	var config *rest.Config
	var exporter sdk.SpanExporter
	if config != nil {
		_ = runTraced(context.Background(), config, exporter, nothing)
	}
}

func runTraced(ctx context.Context, config *rest.Config, exporter sdk.SpanExporter, reconcile operators.Reconciler) (err error) {
	provider := sdk.NewTracerProvider(sdk.WithBatcher(exporter), sdk.WithSampler(sdk.TraceIDRatioBased(0.01)))
	defer func() { err = errors.Join(err, provider.Shutdown(context.WithoutCancel(ctx))) }()
	tracer, err := tracing.New(provider, tracing.Options{})
	if err != nil {
		return err
	}
	config.Wrap(tracing.Propagate)
	manager, err := controller.NewManager(config, scheme.Scheme, controller.Options{})
	if err != nil {
		return err
	}
	if err := manager.Add("web", tracer.Reconciler(reconcile), controller.For(&appsv1.Deployment{})); err != nil {
		return err
	}
	return tracer.Run(ctx, manager)
}
