package tracing

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/bellerophon-io/bellerophon/controller/internal/secrets"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/operators"
	"github.com/bellerophon-io/bellerophon/streams"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

// The attributes of spans. A name that begins with k8s or error is of OpenTelemetry's conventions.
const (
	controllerName = attribute.Key("bellerophon.controller")
	reconcileID    = attribute.Key("bellerophon.reconcile_id") // the reconcileID of logs and of /debug/why
	attemptNumber  = attribute.Key("bellerophon.attempt")
	outcome        = attribute.Key("bellerophon.outcome")
	requeueAfter   = attribute.Key("bellerophon.requeue_after_seconds")
	causesLeftOut  = attribute.Key("bellerophon.causes_left_out")
	eventType      = attribute.Key("bellerophon.event")
	objectKind     = attribute.Key("bellerophon.object.kind")
	objectVersion  = attribute.Key("bellerophon.object.resource_version")
	objectName     = attribute.Key("bellerophon.object.name")
	writeVerb      = attribute.Key("bellerophon.verb")
	echoOutcome    = attribute.Key("bellerophon.echo")
	namespaceName  = attribute.Key("k8s.namespace.name")
	errorType      = attribute.Key("error.type")
)

// attempt is an attempt that is sampled, until its result and its echoes have come. The tracer's mutex
// guards what changes.
type attempt struct {
	target
	request operators.Request
	root    trace.Span
	span    trace.Span // reconcile
	receive []trace.Span
	since   time.Time
	started time.Time
	ended   time.Time // zero while the reconciler runs
	known   bool      // whether the spans are complete, except for echoes
	open    int       // echoes that are awaited
	last    time.Time // the end of the last span
}

// begin starts the spans of an attempt.
func (t *Tracer) begin(root trace.Span, since time.Time, request operators.Request) *attempt {
	made := &attempt{
		target: target{request.Controller, request.NamespacedName}, request: request,
		root: root, since: since, started: time.Now(),
	}
	root.SetAttributes(namespaceName.String(request.Namespace), objectName.String(request.Name))
	within := trace.ContextWithSpan(context.Background(), root)
	var links []trace.Link
	t.mu.Lock()
	if before, known := t.earlier.Get(made.target); known {
		links = append(links, trace.Link{SpanContext: before})
	}
	t.mu.Unlock()
	for _, cause := range request.Causes {
		if cause == (streams.Cause{}) {
			root.SetAttributes(causesLeftOut.Bool(true))
			made.receive = append(made.receive, nil)
			continue
		}
		_, span := t.tracer.Start(within, "receive", trace.WithTimestamp(cause.Received), trace.WithAttributes(
			append(describe(cause.Key, cause.ResourceVersion), eventType.String(cause.Type.String()))...))
		made.receive = append(made.receive, span)
		links = append(links, trace.Link{SpanContext: span.SpanContext()})
	}
	_, made.span = t.tracer.Start(within, "reconcile", trace.WithTimestamp(made.started), trace.WithLinks(links...),
		trace.WithAttributes(controllerName.String(request.Controller), namespaceName.String(request.Namespace), objectName.String(request.Name)))
	t.mu.Lock()
	defer t.mu.Unlock()
	t.attempts[made.target] = append(t.attempts[made.target], made)
	return made
}

// describe returns the attributes that name an object and its version.
func describe(key streams.Key, version string) []attribute.KeyValue {
	made := make([]attribute.KeyValue, 0, 6)
	made = append(made, objectKind.String(key.GroupKind.String()), objectName.String(key.Name), objectVersion.String(version))
	if key.Namespace != "" {
		made = append(made, namespaceName.String(key.Namespace))
	}
	return made
}

// returned notes that the reconciler has returned. again reports whether another attempt follows.
// Without Run, no result completes the attempt.
func (t *Tracer) returned(of *attempt, again bool) {
	t.mu.Lock()
	defer t.unlock()
	of.ended = time.Now()
	if again {
		t.earlier.Add(of.target, of.span.SpanContext())
	} else {
		t.earlier.Remove(of.target)
	}
	if t.manager == nil {
		t.abandon(of)
		delete(t.attempts, of.target)
	}
}

// abandon ends the spans of an attempt whose result is missing.
func (t *Tracer) abandon(of *attempt) {
	if of.ended.IsZero() {
		of.ended = time.Now()
	}
	t.endReceive(of, of.started)
	of.root.SetAttributes(outcome.String("unknown"))
	t.conclude(of, of.ended)
}

// conclude ends the spans of an attempt, except for echoes that are awaited.
func (t *Tracer) conclude(of *attempt, ended time.Time) {
	t.finish(of.span, ended)
	of.extend(ended)
	of.known = true
	t.finishRoot(of)
}

// finish ends a span when the mutex is unlocked, because an exporter may be slow.
func (t *Tracer) finish(span trace.Span, at time.Time) {
	t.finished = append(t.finished, finished{span, at})
}

// finishRoot ends the trace of an attempt, unless more spans will end.
func (t *Tracer) finishRoot(of *attempt) {
	if of.known && of.open == 0 {
		t.finish(of.root, of.last)
	}
}

// complete ends the spans of an attempt by its result, and awaits its echoes.
func (t *Tracer) complete(of *attempt, result *operators.Result) {
	ready := result.Started.Add(-result.Queued)
	within := trace.ContextWithSpan(context.Background(), of.root)
	if cached := t.endReceive(of, ready); !cached.IsZero() {
		t.between(within, "cache", cached, ready)
	}
	t.between(within, "queue", ready, result.Started)

	for _, cause := range of.request.Causes { // Only now, as the result with the write may be read after begin.
		if write, known := t.writes.Get(written{cause.Key, cause.ResourceVersion}); known {
			of.span.AddLink(trace.Link{SpanContext: write})
		}
	}
	described := []attribute.KeyValue{outcome.String(string(result.Outcome)), attemptNumber.Int(result.Attempt),
		reconcileID.String(operators.AttemptID(result.Controller, result.NamespacedName, result.Started))}
	if result.Err != nil {
		described = append(described, errorType.String(reasonOf(result.Err)))
		of.span.SetStatus(codes.Error, "") // The message may quote the content of an object.
		of.root.SetStatus(codes.Error, "")
	}
	if result.RequeueAfter > 0 {
		described = append(described, requeueAfter.Float64(result.RequeueAfter.Seconds()))
	}
	of.span.SetAttributes(described...)
	of.root.SetAttributes(described...)

	within = trace.ContextWithSpan(context.Background(), of.span)
	for i := range result.Writes {
		t.write(within, of, &result.Writes[i])
	}
	t.conclude(of, result.Started.Add(result.Duration))
}

// between makes a span that has ended.
func (t *Tracer) between(within context.Context, name string, from, to time.Time) {
	_, span := t.tracer.Start(within, name, trace.WithTimestamp(from))
	t.finish(span, to)
}

// endReceive ends the spans of the causes when the cache had them, which is before ready. It returns when
// the cache had the last cause, or zero if that is not known.
func (t *Tracer) endReceive(of *attempt, ready time.Time) (last time.Time) {
	for i, span := range of.receive {
		if span == nil {
			continue
		}
		cause := of.request.Causes[i]
		cached, _ := t.find(cause.Key, cause.ResourceVersion, cause.Received)
		switch {
		case cached.IsZero() || cached.After(ready):
			cached = ready
		default:
			last = later(last, cached)
		}
		t.finish(span, later(cached, cause.Received))
	}
	return last
}

// later returns the later one of two times.
func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// extend notes the end of a span. The span request ends with the last one.
func (a *attempt) extend(until time.Time) { a.last = later(a.last, until) }

// reasonOf returns a short word for an error, without its message.
func reasonOf(err error) string {
	var panicked *lifecycle.PanicError
	switch reason := secrets.ReasonOf(err); {
	case errors.As(err, &panicked):
		return "panic"
	case errors.Is(err, operators.ErrTimeout):
		return "timeout"
	case reason != "":
		return reason
	}
	for errors.Unwrap(err) != nil {
		err = errors.Unwrap(err)
	}
	return fmt.Sprintf("%T", err)
}
