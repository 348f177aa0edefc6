package tracing_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/controller/tracing"
	"github.com/bellerophon-io/bellerophon/operators"
	"github.com/bellerophon-io/bellerophon/sources/sourcestest"
	"go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

func TestACreationIsOneTraceFromTheEventToTheEcho(t *testing.T) {
	reconcile := func(ctx context.Context, w *world, request operators.Request) (time.Duration, error) {
		_, span := w.provider.Tracer("reconciler").Start(ctx, "own")
		defer span.End()
		<-time.After(3 * time.Millisecond)
		return exposed(ctx, w, request)
	}
	inWorld(t, reconcile, func(w *world) {
		w.must(w.server.Create(config("")))
		w.pass(time.Minute)
	}, func(w *world, ended spans) {
		traces := ended.traces()
		if len(traces) != 2 {
			t.Fatalf("%d traces, want one for the ConfigMap and one for the echo of the Service:\n%s", len(traces), ended)
		}
		first := traces[0]
		root, receive, queue, attempt := first.one(t, "request"), first.one(t, "receive"), first.one(t, "queue"), first.one(t, "reconcile")
		inCache, create, echo, own := first.one(t, "cache"), first.one(t, "create"), first.one(t, "echo"), first.one(t, "own")
		if len(first) != 8 {
			t.Errorf("the trace has other spans:\n%s", first)
		}
		for _, pair := range [][2]tracetest.SpanStub{{receive, root}, {inCache, root}, {queue, root}, {attempt, root}, {create, attempt}, {own, attempt}, {echo, create}} {
			child, parent := pair[0], pair[1]
			if child.Parent.SpanID() != parent.SpanContext.SpanID() || child.StartTime.Before(parent.StartTime) {
				t.Errorf("%s belongs not to %s, or starts before it:\n%s", child.Name, parent.Name, first)
			}
		}
		for _, pair := range [][2]time.Time{
			{root.StartTime, receive.StartTime}, {receive.EndTime, inCache.StartTime}, {inCache.EndTime, queue.StartTime},
			{queue.EndTime, attempt.StartTime}, {attempt.EndTime, attempt.StartTime.Add(3 * time.Millisecond)}, {create.EndTime, echo.StartTime}, {root.EndTime, echo.EndTime},
		} {
			if !pair[0].Equal(pair[1]) {
				t.Errorf("the spans do not follow each other: %v and %v\n%s", pair[0], pair[1], first)
			}
		}
		if !linked(attempt, receive) || value(echo, "bellerophon.echo") != "seen" || value(attempt, "bellerophon.outcome") != "success" {
			t.Errorf("the attempt has no link to its cause, or no outcome:\n%s", first)
		}
		if got := w.headers["POST services"]; !strings.Contains(got, attempt.SpanContext.TraceID().String()+"-"+attempt.SpanContext.SpanID().String()+"-01") {
			t.Errorf("the creation was sent with the traceparent %q", got)
		}
		if got := w.headers["GET services"]; got != "" {
			t.Errorf("a watch was sent with the traceparent %q", got)
		}
		var made corev1.Service
		made.Namespace, made.Name = "a", "one"
		w.must(w.server.Get(&made))
		if value(create, "bellerophon.object.kind") != "Service" || value(create, "bellerophon.object.name") != "one" || value(create, "bellerophon.object.resource_version") != made.ResourceVersion {
			t.Errorf("the write is described by %v", create.Attributes)
		}
		if again := traces[1].one(t, "reconcile"); !linked(again, create) || !linked(again, traces[1].one(t, "receive")) {
			t.Errorf("the attempt for the echo has no link to the write: %v", again.Links)
		}
	})
}

func TestAFailedAttemptIsLinkedFromTheOneAfterTheBackoff(t *testing.T) {
	inWorld(t, exposed, func(w *world) {
		w.must(w.server.Create(config("")))
		w.pass(time.Minute)
	}, func(w *world, ended spans) {
		attempts := ended.named("reconcile")
		first, second := attempts[0], attempts[1]
		if first.Status.Code != codes.Error || value(first, "error.type") != "InternalError" || value(first, "bellerophon.outcome") != "error" {
			t.Errorf("the failed attempt has %v %v", first.Status, first.Attributes)
		}
		if !linked(second, first) || value(second, "bellerophon.attempt") != "2" || second.Status.Code == codes.Error {
			t.Errorf("the second attempt has %v %v", second.Links, second.Attributes)
		}
		after, _ := time.ParseDuration(value(first, "bellerophon.requeue_after_seconds") + "s")
		if got := second.StartTime.Sub(first.EndTime); after <= 0 || got < after-time.Millisecond {
			t.Errorf("the second attempt came after %v, want %v", got, after)
		}
		if third := attempts[2]; linked(third, second) {
			t.Error("an attempt is linked to one that succeeded")
		}
	}, sourcestest.Fault{Action: sourcestest.Refuse, Verb: "create", Resource: "services", Code: http.StatusInternalServerError})
}

func TestABurstIsOneTraceWithLinksToAllCauses(t *testing.T) {
	slow := func(_ context.Context, _ *world, _ operators.Request) (time.Duration, error) {
		<-time.After(time.Second)
		return 0, nil
	}
	inWorld(t, slow, func(w *world) {
		w.must(w.server.Create(config("0")))
		w.pass(100 * time.Millisecond)
		for i := range 5 {
			w.must(w.server.Update(config(fmt.Sprint(i + 1))))
			w.pass(time.Millisecond)
		}
		w.pass(time.Minute)
		for i := range 30 {
			w.must(w.server.Update(config(fmt.Sprint(-i))))
			w.pass(time.Millisecond)
		}
		w.pass(time.Minute)
	}, func(w *world, ended spans) {
		traces := ended.traces()
		causes := func(of spans) int {
			attempt := of.one(t, "reconcile")
			received := of.named("receive")
			for _, receive := range received {
				if !linked(attempt, receive) || value(receive, "bellerophon.event") != "Applied" {
					t.Errorf("there is no link to the cause %v", receive.Attributes)
				}
			}
			return len(received)
		}
		if causes(traces[0]) != 1 || causes(traces[1]) != 5 {
			t.Errorf("the traces do not have one and five causes:\n%s", ended)
		}
		last := traces[len(traces)-1]
		if got := causes(last); got != 15 || value(last.one(t, "request"), "bellerophon.causes_left_out") != "true" {
			t.Errorf("a trace with more causes than are kept has %d of them:\n%s", got, last)
		}
	})
}

func TestAnEchoThatIsLostEndsWithTheAttributeThatSaysSo(t *testing.T) {
	inWorld(t, exposed, func(w *world) {
		w.must(w.server.Create(config("")))
		w.pass(time.Minute)
	}, func(w *world, ended spans) {
		echo := ended.one(t, "echo")
		if value(echo, "bellerophon.echo") != "lost" || echo.EndTime.Sub(echo.StartTime) != tracing.DefaultEchoTimeout {
			t.Errorf("the echo took %v: %v", echo.EndTime.Sub(echo.StartTime), echo.Attributes)
		}
		if root := ended.named("request")[0]; !root.EndTime.Equal(echo.EndTime) {
			t.Errorf("the trace ends at %v, want %v", root.EndTime, echo.EndTime)
		}
	}, sourcestest.Fault{Action: sourcestest.Drop, Type: "ADDED", Resource: "services"})
}

func TestAnEchoOfEachWriteIsFound(t *testing.T) {
	inWorld(t, func(ctx context.Context, w *world, request operators.Request) (time.Duration, error) {
		owner, err := controller.Get[*corev1.ConfigMap](ctx, w.client, request.NamespacedName)
		if err != nil || len(owner.Data) > 1 {
			return 0, controller.IgnoreNotFound(err)
		}
		made, err := controller.Create(ctx, w.client, service(owner))
		if err != nil {
			return 0, err
		}
		changed := owner.DeepCopy()
		changed.Data["more"] = "x"
		patched, err := controller.Patch(ctx, w.client, changed, controller.MergeFrom(owner))
		if err != nil {
			return 0, err
		}
		if _, err := controller.Update(ctx, w.client, patched); err != nil { // It changes nothing.
			return 0, err
		}
		return 0, controller.Delete(ctx, w.client, made)
	}, func(w *world) {
		w.must(w.server.Create(config("")))
		w.pass(time.Minute)
	}, func(w *world, ended spans) {
		echoes := map[string]string{}
		for _, echo := range ended.named("echo") {
			for _, write := range ended {
				if write.SpanContext.SpanID() == echo.Parent.SpanID() {
					echoes[write.Name] = value(echo, "bellerophon.echo")
				}
			}
		}
		if got := fmt.Sprint(echoes); got != "map[create:seen delete:seen patch:seen update:seen]" {
			t.Errorf("the echoes are %s:\n%s", got, ended)
		}
	})
}

func TestNoContentOfObjectsIsInTheSpans(t *testing.T) {
	const canary = "canary-of-an-object"
	inWorld(t, func(ctx context.Context, w *world, request operators.Request) (time.Duration, error) {
		if _, err := exposed(ctx, w, request); err != nil {
			return 0, err
		}
		if len(request.Causes) > 1 {
			panic(canary)
		}
		return 0, fmt.Errorf("the value is %s: %w", canary, errors.New(canary))
	}, func(w *world) {
		made := config(canary)
		made.Annotations = map[string]string{canary: canary}
		made.Labels = map[string]string{canary: canary}
		w.must(w.server.Create(made))
		w.pass(time.Second)
		w.must(w.server.Update(made))
		w.must(w.server.Delete(made))
		w.pass(time.Minute)
	}, func(w *world, ended spans) {
		if len(ended) < 10 {
			t.Errorf("%d spans have ended", len(ended))
		}
		for _, span := range ended {
			for _, text := range texts(span) {
				if strings.Contains(text, canary) {
					t.Errorf("the span %s has %q", span.Name, text)
				}
			}
		}
	})
}

func TestAnAttemptThatPanicsEndsItsTrace(t *testing.T) {
	inWorld(t, func(context.Context, *world, operators.Request) (time.Duration, error) { panic("now") }, func(w *world) {
		w.must(w.server.Create(config("")))
		w.pass(time.Millisecond)
	}, func(w *world, ended spans) {
		if attempt := ended.one(t, "reconcile"); value(attempt, "error.type") != "panic" || attempt.Status.Code != codes.Error {
			t.Errorf("the attempt has %v %v", attempt.Status, attempt.Attributes)
		}
	})
}

func TestTheEndOfTheManagerEndsAllSpans(t *testing.T) {
	inWorld(t, exposed, func(w *world) {
		w.must(w.server.Create(config("")))
		w.pass(time.Second)
		if roots := spans(w.exporter.GetSpans()).named("request"); len(roots) != 0 {
			t.Errorf("a trace has ended before its echo:\n%s", spans(w.exporter.GetSpans()))
		}
	}, func(w *world, ended spans) {
		ended.one(t, "request")
		if echo := ended.one(t, "echo"); value(echo, "bellerophon.echo") != "unknown" {
			t.Errorf("the echo has %v", echo.Attributes)
		}
	}, sourcestest.Fault{Action: sourcestest.Drop, Type: "ADDED", Resource: "services"})
}

func TestOptionsOutOfRangeAreRefusedByName(t *testing.T) {
	if _, err := tracing.New(nil, tracing.Options{}); err == nil || err.Error() != "tracing: the TracerProvider is nil; give the one of your SDK" {
		t.Errorf("the error is %v", err)
	}
	for _, timeout := range []time.Duration{-1, time.Microsecond, time.Hour} {
		_, err := tracing.New(noop.NewTracerProvider(), tracing.Options{EchoTimeout: timeout})
		if want := fmt.Sprintf("tracing: EchoTimeout is %v; allowed is 1ms to 10m", timeout); err == nil || err.Error() != want {
			t.Errorf("the error is %v, want %s", err, want)
		}
	}
}

func TestWithoutRunAnAttemptIsATraceOfItsOwn(t *testing.T) {
	exporter := tracetest.NewInMemoryExporter()
	tracer, err := tracing.New(sdk.NewTracerProvider(sdk.WithSyncer(exporter)), tracing.Options{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = tracer.Reconciler(nothing)(t.Context(), operators.Request{Controller: "configs", NamespacedName: types.NamespacedName{Name: "one"}})
	if ended := spans(exporter.GetSpans()); err != nil || len(ended) != 2 || value(ended.one(t, "request"), "bellerophon.outcome") != "unknown" {
		t.Errorf("the spans are, with the error %v:\n%s", err, ended)
	}
}

func TestAManagerThatDoesNotRunEndsTheTracerToo(t *testing.T) {
	tracer, err := tracing.New(noop.NewTracerProvider(), tracing.Options{})
	if err != nil {
		t.Fatal(err)
	}
	manager, err := controller.NewManager(&rest.Config{}, scheme.Scheme, controller.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"the manager has no controllers", "tracing: the tracer runs a manager already, or did"} {
		if err := tracer.Run(t.Context(), manager); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("the error is %v, want %s", err, want)
		}
	}
}

func nothing(context.Context, operators.Request) (time.Duration, error) { return 0, nil }

func TestSpansWithinAnAttemptThatIsNotSampledAreNotSampled(t *testing.T) {
	exporter := tracetest.NewInMemoryExporter()
	provider := sdk.NewTracerProvider(sdk.WithSyncer(exporter), sdk.WithSampler(sdk.ParentBased(sdk.NeverSample())))
	tracer, err := tracing.New(provider, tracing.Options{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = tracer.Reconciler(func(ctx context.Context, _ operators.Request) (time.Duration, error) {
		of := trace.SpanContextFromContext(ctx)
		_, span := provider.Tracer("own").Start(ctx, "own")
		if !of.IsValid() || of.IsSampled() || span.IsRecording() || span.SpanContext().TraceID() != of.TraceID() {
			t.Errorf("the span %v is within %v", span.SpanContext(), of)
		}
		span.End()
		return 0, nil
	})(t.Context(), operators.Request{})
	if err != nil || len(exporter.GetSpans()) != 0 {
		t.Errorf("%d spans have ended: %v", len(exporter.GetSpans()), err)
	}
}

// BenchmarkAnAttempt measures what the tracer adds to an attempt.
func BenchmarkAnAttempt(b *testing.B) {
	for name, provider := range map[string]trace.TracerProvider{
		"noop":        noop.NewTracerProvider(),
		"sampled out": sdk.NewTracerProvider(sdk.WithSampler(sdk.NeverSample())),
		"sampled":     sdk.NewTracerProvider(),
	} {
		b.Run(name, func(b *testing.B) {
			tracer, err := tracing.New(provider, tracing.Options{})
			if err != nil {
				b.Fatal(err)
			}
			reconcile := tracer.Reconciler(nothing)
			request := operators.Request{Controller: "configs", NamespacedName: types.NamespacedName{Namespace: "a", Name: "one"}, Received: time.Now()}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := reconcile(b.Context(), request); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkASpanThatIsNotSampled measures the part of the SDK in an attempt that is sampled out.
func BenchmarkASpanThatIsNotSampled(b *testing.B) {
	of := sdk.NewTracerProvider(sdk.WithSampler(sdk.NeverSample())).Tracer("own")
	b.ReportAllocs()
	for b.Loop() {
		of.Start(b.Context(), "request")
	}
}
