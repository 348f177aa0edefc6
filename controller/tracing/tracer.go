package tracing

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/operators"
	"github.com/bellerophon-io/bellerophon/streams"
	lru "github.com/hashicorp/golang-lru/v2/simplelru"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"k8s.io/apimachinery/pkg/types"
)

// DefaultEchoTimeout is how long an echo is awaited by default.
const DefaultEchoTimeout = 10 * time.Second

// drainTime is how long the last results of a manager may take to arrive.
const drainTime = time.Second

const (
	scope       = "github.com/bellerophon-io/bellerophon/controller/tracing"
	maxSeen     = 4096 // objects whose recent versions are kept
	maxLinks    = 4096 // writes and attempts that later attempts may name
	maxAwaiting = 4096 // echoes that are awaited; the oldest one ends when another one comes
)

// Options configures a [Tracer]. The zero value has the defaults.
type Options struct {
	// EchoTimeout is how long the echo of a write is awaited: 1 ms to 10 m; default 10 s. A trace ends
	// with its last echo.
	EchoTimeout time.Duration
}

// Tracer makes traces of the attempts of one manager. Create it with [New], wrap reconcilers with its
// method Reconciler, and run the manager with its method Run. Its methods may be called from any
// goroutine.
type Tracer struct {
	tracer  trace.Tracer
	timeout time.Duration

	mu       sync.Mutex
	manager  *controller.Manager
	attempts map[target][]*attempt                // whose result is awaited, oldest first
	seen     *lru.LRU[streams.Key, []stamp]       // what the cache has received, oldest first
	awaited  map[streams.Key][]*echo              // what it has not received yet
	awaiting *list.List                           // the same echoes, by the time when they are lost
	writes   *lru.LRU[written, trace.SpanContext] // the spans of writes
	earlier  *lru.LRU[target, trace.SpanContext]  // the last attempts that others follow
	finished []finished                           // spans that end when mu is unlocked
	changed  chan struct{}                        // has a token if the first deadline may have changed
}

// finished is a span that has ended.
type finished struct {
	span trace.Span
	at   time.Time
}

// unlock unlocks the mutex, and ends the spans that have finished.
func (t *Tracer) unlock() {
	ended := t.finished
	t.finished = nil
	t.mu.Unlock()
	for _, finished := range ended {
		finished.span.End(trace.WithTimestamp(finished.at))
	}
}

// target is an object of a controller.
type target struct {
	controller string
	types.NamespacedName
}

// written identifies a write.
type written struct {
	key     streams.Key
	version string
}

// New creates a tracer that starts its spans at a provider. It uses no global provider. New returns an
// error if the provider is nil, or if an option is out of its range.
func New(provider trace.TracerProvider, options Options) (*Tracer, error) {
	if provider == nil {
		return nil, errors.New("tracing: the TracerProvider is nil; give the one of your SDK")
	}
	if options.EchoTimeout == 0 {
		options.EchoTimeout = DefaultEchoTimeout
	}
	if options.EchoTimeout < time.Millisecond || options.EchoTimeout > 10*time.Minute {
		return nil, fmt.Errorf("tracing: EchoTimeout is %v; allowed is 1ms to 10m", options.EchoTimeout)
	}
	t := &Tracer{
		tracer:   provider.Tracer(scope),
		timeout:  options.EchoTimeout,
		attempts: map[target][]*attempt{},
		awaited:  map[streams.Key][]*echo{},
		awaiting: list.New(),
		changed:  make(chan struct{}, 1),
	}
	var errs [3]error
	t.seen, errs[0] = lru.NewLRU[streams.Key, []stamp](maxSeen, nil)
	t.writes, errs[1] = lru.NewLRU[written, trace.SpanContext](maxLinks, nil)
	t.earlier, errs[2] = lru.NewLRU[target, trace.SpanContext](maxLinks, nil)
	return t, errors.Join(errs[:]...)
}

// Reconciler wraps a reconciler, so that each attempt that is sampled is a trace. The context of the
// attempt carries the span reconcile. The span is complete only while Run runs.
func (t *Tracer) Reconciler(next operators.Reconciler) operators.Reconciler {
	kind := trace.WithSpanKind(trace.SpanKindConsumer)
	return func(ctx context.Context, request operators.Request) (time.Duration, error) {
		since := startOf(request)
		// The context of an attempt costs a timer at its first use, so the sampler gets another one.
		_, root := t.tracer.Start(context.Background(), "request", trace.WithTimestamp(since), kind,
			trace.WithAttributes(controllerName.String(request.Controller)))
		switch {
		case !root.SpanContext().IsValid():
			return next(ctx, request)
		case !root.IsRecording(): // Spans that the reconciler starts are not sampled either.
			return next(trace.ContextWithSpan(ctx, root), request)
		}
		made := t.begin(root, since, request)
		again := true // If the reconciler panics.
		defer func() { t.returned(made, again) }()
		requeueAfter, err := next(trace.ContextWithSpan(ctx, made.span), request)
		again = err != nil || requeueAfter > 0
		return requeueAfter, err
	}
}

// Run runs a manager, and completes the traces of its attempts. It returns what Run of the manager
// returns, after all spans have ended. Call it once, instead of Run of the manager.
func (t *Tracer) Run(ctx context.Context, manager *controller.Manager) error {
	t.mu.Lock()
	used := t.manager != nil
	t.manager = manager
	t.mu.Unlock()
	if used {
		return errors.New("tracing: the tracer runs a manager already, or did; make another one")
	}
	followers := lifecycle.New(context.WithoutCancel(ctx)) // They end with the streams of the manager.
	followers.Go("results", func(ctx context.Context) error {
		return streams.ForEach(ctx, manager.Results(), t.onResults, t.onLag(func() { t.endAttempts(func(a *attempt) bool { return !a.ended.IsZero() }) }))
	})
	followers.Go("changes", func(ctx context.Context) error {
		return streams.ForEach(ctx, manager.Changes(), t.onChanges, t.onLag(t.endEchoes))
	})
	echoes := lifecycle.New(ctx)
	echoes.Go("echoes", t.expire)
	err := manager.Run(ctx)
	drained := time.AfterFunc(drainTime, followers.Stop) // The streams do not end if they have not begun.
	defer drained.Stop()
	if err != nil {
		followers.Stop()
	}
	err = errors.Join(err, followers.Wait())
	echoes.Stop()
	err = errors.Join(err, echoes.Wait())
	t.end()
	return err
}

// Propagate wraps the transport of a configuration: config.Wrap(tracing.Propagate). A request to the API
// server then carries the span of its context in the header traceparent.
func Propagate(next http.RoundTripper) http.RoundTripper { return &propagating{next} }

type propagating struct{ next http.RoundTripper }

// RoundTrip adds the header to a copy of the request.
func (p *propagating) RoundTrip(request *http.Request) (*http.Response, error) {
	if trace.SpanContextFromContext(request.Context()).IsValid() {
		request = request.Clone(request.Context())
		propagation.TraceContext{}.Inject(request.Context(), propagation.HeaderCarrier(request.Header))
	}
	return p.next.RoundTrip(request)
}

// WrappedRoundTripper returns the wrapped transport, which some functions of client-go look for.
func (p *propagating) WrappedRoundTripper() http.RoundTripper { return p.next }

// startOf returns when the first cause of a request was received, or else when the request was due.
func startOf(request operators.Request) time.Time {
	since := request.Received
	if since.IsZero() {
		since = time.Now()
	}
	for _, cause := range request.Causes {
		if !cause.Received.IsZero() && cause.Received.Before(since) {
			since = cause.Received
		}
	}
	return since
}

// onResults completes the attempts whose results have come.
func (t *Tracer) onResults(results []operators.Result) {
	t.mu.Lock()
	defer t.unlock()
	for i := range results {
		t.onResult(&results[i])
	}
}

// onResult completes the attempt of a result, unless it was not sampled. Attempts of an object do not
// overlap, so the time tells which one it is. The results of attempts before it were missed.
func (t *Tracer) onResult(result *operators.Result) {
	of := target{result.Controller, result.NamespacedName}
	waiting := t.attempts[of]
	ended := result.Started.Add(result.Duration)
	at := slices.IndexFunc(waiting, func(a *attempt) bool { return !a.started.Before(result.Started) })
	if at < 0 || waiting[at].started.After(ended) {
		if len(waiting) == 0 {
			t.earlier.Remove(of) // Another attempt has followed the one there.
		}
		return
	}
	for _, missed := range waiting[:at] {
		t.abandon(missed)
	}
	t.complete(waiting[at], result)
	if waiting = waiting[at+1:]; len(waiting) > 0 {
		t.attempts[of] = waiting
		return
	}
	delete(t.attempts, of)
}

// onLag returns a function for the errors of a stream. If its follower fell behind, it ends what may have
// been missed. Other errors are failures of sources, which the manager reports.
func (t *Tracer) onLag(end func()) func(error) {
	return func(err error) {
		var lagged *streams.Lagged
		if !errors.As(err, &lagged) {
			return
		}
		t.mu.Lock()
		defer t.unlock()
		end()
	}
}

// end ends all spans.
func (t *Tracer) end() {
	t.mu.Lock()
	defer t.unlock()
	t.endAttempts(func(*attempt) bool { return true })
	t.endEchoes()
}

// endAttempts abandons the attempts that are selected.
func (t *Tracer) endAttempts(selected func(*attempt) bool) {
	for of, waiting := range t.attempts {
		rest := waiting[:0]
		for _, attempt := range waiting {
			if selected(attempt) {
				t.abandon(attempt)
				continue
			}
			rest = append(rest, attempt)
		}
		if t.attempts[of] = rest; len(rest) == 0 {
			delete(t.attempts, of)
		}
	}
}
