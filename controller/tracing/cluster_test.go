package tracing_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/controller/tracing"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/internal/localcluster/clustertest"
	"github.com/bellerophon-io/bellerophon/operators"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
)

// sending is an exporter that sends the spans to a channel.
type sending chan tracetest.SpanStub

func (s sending) ExportSpans(_ context.Context, ended []sdk.ReadOnlySpan) error {
	for _, span := range tracetest.SpanStubsFromReadOnlySpans(ended) {
		s <- span
	}
	return nil
}

func (s sending) Shutdown(context.Context) error { return nil }

func TestOnARealClusterATraceEndsWithTheEcho(t *testing.T) {
	config := clustertest.Shared(t).AdminConfig()
	namespace := clustertest.Namespace(t)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	others, err := kubernetes.NewForConfig(config)
	must(err)
	ended := make(sending, 1000)
	tracer, err := tracing.New(sdk.NewTracerProvider(sdk.WithSyncer(ended)), tracing.Options{})
	must(err)
	config.Wrap(tracing.Propagate)
	manager, err := controller.NewManager(config, scheme.Scheme, controller.Options{Namespaces: []string{namespace}, Logger: slog.New(slog.DiscardHandler)})
	must(err)
	must(manager.Add("configs", tracer.Reconciler(func(ctx context.Context, request operators.Request) (time.Duration, error) {
		owner, err := controller.Get[*corev1.ConfigMap](ctx, manager.Client(), request.NamespacedName)
		if err != nil || owner.Name != "one" {
			return 0, controller.IgnoreNotFound(err)
		}
		made := owner.DeepCopy()
		made.ObjectMeta = metav1.ObjectMeta{Namespace: namespace, Name: "two"}
		made, err = controller.Create(ctx, manager.Client(), made)
		if err != nil {
			return 0, err
		}
		return 0, controller.Delete(ctx, manager.Client(), made)
	}), controller.For(&corev1.ConfigMap{})))
	group := lifecycle.New(t.Context())
	group.Go("manager", func(ctx context.Context) error { return tracer.Run(ctx, manager) })
	_, err = others.CoreV1().ConfigMaps(namespace).Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "one"}}, metav1.CreateOptions{})
	must(err)

	deadline := time.After(30 * time.Second)
	var all spans
	for traced := false; !traced; {
		select {
		case span := <-ended:
			all = append(all, span)
			traced = span.Name == "request" && value(span, "bellerophon.object.name") == "one"
		case <-deadline:
			t.Fatalf("the trace has not ended:\n%s", all)
		}
	}
	group.Stop()
	must(group.Wait())
	root := all[len(all)-1]
	for _, of := range all.traces() {
		if of[0].SpanContext.TraceID() != root.SpanContext.TraceID() {
			continue
		}
		of.one(t, "create")
		of.one(t, "delete")
		echoes := of.named("echo")
		if len(echoes) != 2 {
			t.Errorf("%d echoes, want 2:\n%s", len(echoes), of)
		}
		for _, echo := range echoes {
			if value(echo, "bellerophon.echo") != "seen" || echo.EndTime.Before(echo.StartTime) {
				t.Errorf("an echo was not seen:\n%s", of)
			}
		}
	}
}
