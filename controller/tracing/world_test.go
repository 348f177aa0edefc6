package tracing_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/controller/tracing"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/internal/localcluster/clustertest"
	"github.com/bellerophon-io/bellerophon/operators"
	"github.com/bellerophon-io/bellerophon/sources/sourcestest"
	"go.opentelemetry.io/otel/attribute"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
)

func TestMain(m *testing.M) { clustertest.Main(m) }

// world is a traced manager over an API server in virtual time. Its controller reconciles ConfigMaps,
// which own Services.
type world struct {
	t        *testing.T
	server   *sourcestest.Server
	client   *controller.Client
	exporter *tracetest.InMemoryExporter
	provider *sdk.TracerProvider

	hang atomic.Pointer[chan struct{}] // if set, the exporter hangs until it is closed

	mu      sync.Mutex
	headers map[string]string // traceparent of the requests that are not reads, by method and resource
}

// reconciler reconciles the ConfigMaps of a world.
type reconciler func(ctx context.Context, w *world, request operators.Request) (time.Duration, error)

// inWorld runs a test in virtual time, with a reconciler and faults. The test gets the world when the
// cache has settled, and the spans that have ended after it.
func inWorld(t *testing.T, reconcile reconciler, test func(w *world), check func(w *world, ended spans), script ...sourcestest.Fault) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, exporter: tracetest.NewInMemoryExporter(), headers: map[string]string{}}
		w.provider = sdk.NewTracerProvider(sdk.WithSyncer(gated{w.exporter, &w.hang}))
		var err error
		w.server, err = sourcestest.New(sourcestest.Options{Scheme: scheme.Scheme, Script: script})
		w.must(err)
		tracer, err := tracing.New(w.provider, tracing.Options{})
		w.must(err)
		config := w.server.Config()
		config.Wrap(func(next http.RoundTripper) http.RoundTripper { return recording{w, next} })
		config.Wrap(tracing.Propagate)
		manager, err := controller.NewManager(config, scheme.Scheme, controller.Options{
			Logger: slog.New(slog.DiscardHandler), OnError: func(error) {},
		})
		w.must(err)
		w.client = manager.Client()
		w.must(manager.Add("configs", tracer.Reconciler(func(ctx context.Context, request operators.Request) (time.Duration, error) {
			return reconcile(ctx, w, request)
		}), controller.For(&corev1.ConfigMap{}), controller.Owns(&corev1.Service{})))
		group := lifecycle.New(t.Context())
		group.Go("manager", func(ctx context.Context) error { return tracer.Run(ctx, manager) })
		w.pass(time.Second)
		test(w)
		group.Stop()
		w.must(group.Wait())
		check(w, spans(w.exporter.GetSpans()))
	})
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// pass lets time pass.
func (w *world) pass(by time.Duration) {
	<-time.After(by)
	synctest.Wait()
}

// gated is an exporter that may hang.
type gated struct {
	sdk.SpanExporter
	hang *atomic.Pointer[chan struct{}]
}

func (g gated) ExportSpans(ctx context.Context, ended []sdk.ReadOnlySpan) error {
	if until := g.hang.Load(); until != nil {
		<-*until
	}
	return g.SpanExporter.ExportSpans(ctx, ended)
}

// recording is a transport that records the headers of requests.
type recording struct {
	world *world
	next  http.RoundTripper
}

func (r recording) RoundTrip(request *http.Request) (*http.Response, error) {
	resource := request.URL.Path[strings.LastIndex(request.URL.Path, "/")+1:]
	r.world.mu.Lock()
	r.world.headers[request.Method+" "+resource] = request.Header.Get("traceparent")
	r.world.mu.Unlock()
	return r.next.RoundTrip(request)
}

func config(value string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "one"}, Data: map[string]string{"value": value}}
}

// exposed is a reconciler that creates a Service for a ConfigMap.
func exposed(ctx context.Context, w *world, request operators.Request) (time.Duration, error) {
	owner, err := controller.Get[*corev1.ConfigMap](ctx, w.client, request.NamespacedName)
	if err != nil {
		return 0, controller.IgnoreNotFound(err)
	}
	if _, err := controller.Get[*corev1.Service](ctx, w.client, request.NamespacedName); err == nil {
		return 0, nil
	}
	_, err = controller.Create(ctx, w.client, service(owner))
	return 0, err
}

func service(owner *corev1.ConfigMap) *corev1.Service {
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{
		Namespace: owner.Namespace, Name: owner.Name,
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(owner, corev1.SchemeGroupVersion.WithKind("ConfigMap"))},
	}}
}

// spans are spans that have ended.
type spans tracetest.SpanStubs

// named returns the spans of a name, by their start.
func (s spans) named(name string) spans {
	found := slices.DeleteFunc(slices.Clone(s), func(span tracetest.SpanStub) bool { return span.Name != name })
	slices.SortStableFunc(found, func(a, b tracetest.SpanStub) int { return a.StartTime.Compare(b.StartTime) })
	return found
}

// traces returns the spans of each trace, in the order of the start of the traces.
func (s spans) traces() (traces []spans) {
	for _, root := range s.named("request") {
		traces = append(traces, slices.DeleteFunc(slices.Clone(s), func(span tracetest.SpanStub) bool {
			return span.SpanContext.TraceID() != root.SpanContext.TraceID()
		}))
	}
	return traces
}

// one returns the only span of a name.
func (s spans) one(t *testing.T, name string) tracetest.SpanStub {
	t.Helper()
	found := s.named(name)
	if len(found) != 1 {
		t.Fatalf("%d spans are named %s, want one among\n%s", len(found), name, s)
	}
	return found[0]
}

// String lists the spans.
func (s spans) String() string {
	var list strings.Builder
	for _, span := range s {
		fmt.Fprintf(&list, "%s %s-%s in %s %v\n", span.Name, span.StartTime.Format(stamp), span.EndTime.Format(stamp), span.Parent.SpanID(), span.Attributes)
	}
	return list.String()
}

const stamp = "05.000"

// value returns an attribute of a span as text.
func value(of tracetest.SpanStub, key string) string {
	for _, found := range of.Attributes {
		if string(found.Key) == key {
			return found.Value.String()
		}
	}
	return ""
}

// linked reports whether a span has a link to another one.
func linked(from, to tracetest.SpanStub) bool {
	return slices.ContainsFunc(from.Links, func(link sdk.Link) bool { return link.SpanContext.SpanID() == to.SpanContext.SpanID() })
}

// texts returns all texts of a span.
func texts(of tracetest.SpanStub) []string {
	found := []string{of.Name, of.Status.Description}
	add := func(list []attribute.KeyValue) {
		for _, pair := range list {
			found = append(found, string(pair.Key), pair.Value.String())
		}
	}
	add(of.Attributes)
	for _, event := range of.Events {
		found = append(found, event.Name)
		add(event.Attributes)
	}
	for _, link := range of.Links {
		add(link.Attributes)
	}
	return found
}
