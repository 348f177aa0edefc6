package webhook

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/streams"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

// Server serves webhooks. Create it with [New], add functions, and call Run once.
type Server struct {
	options Options
	target  target
	secret  types.NamespacedName // empty without one
	scheme  *runtime.Scheme
	decoder runtime.Decoder
	api     *api
	log     *slog.Logger
	metrics *metrics
	failed  failureLog

	mu          sync.Mutex
	started     bool
	hooks       []*hook
	conversions map[schema.GroupKind]*conversion
	reviewed    map[string]*conversion // by the names of resource definitions

	served   atomic.Pointer[pair] // the certificate in use
	trouble  atomic.Pointer[error]
	ready    chan struct{} // closed when the server is ready for the first time
	draining atomic.Bool
	bodies   bodies
	timings  timings
}

// timings are the times of a rotation. Tests shorten them.
type timings struct {
	propagation time.Duration // until API servers have read an injected authority
	overlap     time.Duration // for which an authority that is no longer in use stays injected
	lifetime    time.Duration // of an issued certificate
}

// The times of a rotation. API servers watch the configurations, which takes less than a second. Replicas
// watch the Secret, and notice within 90 s if their watch is stale.
const (
	propagation = 15 * time.Second
	overlap     = time.Hour
)

// New creates a server that reads and writes its configurations and its Secret with config. The scheme has
// the kinds of the functions. New returns an error for an option that is out of its range.
func New(config *rest.Config, scheme *runtime.Scheme, options Options) (*Server, error) {
	options, to, secret, err := options.withDefaults()
	if err != nil {
		return nil, err
	}
	reached, err := newAPI(config)
	if err != nil {
		return nil, fmt.Errorf("webhook: creating a client for %s: %w", config.Host, err)
	}
	measured, err := newMetrics(options.Registry)
	if err != nil {
		return nil, fmt.Errorf("webhook: registering metrics; give each server a Registry of its own: %w", err)
	}
	s := &Server{
		options:     options,
		target:      to,
		secret:      secret,
		scheme:      scheme,
		decoder:     json.NewSerializerWithOptions(json.DefaultMetaFactory, scheme, scheme, json.SerializerOptions{}),
		api:         reached,
		log:         options.Logger,
		metrics:     measured,
		conversions: map[schema.GroupKind]*conversion{},
		reviewed:    map[string]*conversion{},
		ready:       make(chan struct{}),
		timings:     timings{propagation, overlap, options.Certificates.Lifetime},
	}
	if s.failed, err = newFailureLog(s.log, measured.dropped); err != nil {
		return nil, fmt.Errorf("webhook: %w", err)
	}
	s.fail(errors.New("the server does not run"))
	return s, nil
}

// mayAdd returns an error if functions can no longer be added.
func (s *Server) mayAdd() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.started {
		return errors.New("the server runs already; add all functions before Run")
	}
	return nil
}

// add adds a webhook of a kind.
func (s *Server) add(added *hook) error {
	if err := s.mayAdd(); err != nil {
		return err
	}
	if slices.ContainsFunc(s.hooks, func(known *hook) bool { return known.path() == added.path() }) {
		if added.given != nil {
			return errors.New("it has a function already; give each webhook a name of its own")
		}
		return fmt.Errorf("%s of %v has a function already; call both from one", added.verb(), added.kind)
	}
	s.hooks = append(s.hooks, added)
	return nil
}

// decode decodes an object into its Go type.
func (s *Server) decode(raw []byte, into streams.Object) error {
	decoded, _, err := s.decoder.Decode(raw, nil, into)
	switch {
	case err != nil:
		return fmt.Errorf("decoding a %T: %w", into, err)
	case reflect.TypeOf(decoded) != reflect.TypeOf(into):
		return fmt.Errorf("decoding a %T: it is a %v", into, decoded.GetObjectKind().GroupVersionKind())
	}
	return nil
}

// fail records why the server is not ready.
func (s *Server) fail(err error) { s.trouble.Store(&err) }

// Ready returns nil if the server serves with a valid certificate, and its configurations had the authority
// of it. Otherwise the error says what is missing. An API server that does not answer later makes no
// difference. The server answers GET /readyz accordingly.
func (s *Server) Ready() error {
	select {
	case <-s.ready:
	default:
		return fmt.Errorf("webhook: not ready: %w", *s.trouble.Load())
	}
	if s.draining.Load() {
		return errors.New("webhook: not ready: the server is stopping")
	}
	if held := s.served.Load(); !held.isValid(time.Now()) {
		return fmt.Errorf("webhook: not ready: the certificate expired at %v: %w", held.leaf.NotAfter.UTC(), *s.trouble.Load())
	}
	return nil
}

// WaitReady waits until the server is ready for the first time. If ctx ends earlier, the error says what
// is missing.
func (s *Server) WaitReady(ctx context.Context) error {
	select {
	case <-s.ready:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", s.Ready(), ctx.Err())
	}
}

// Run serves until ctx ends. Then new requests are accepted for Options.ShutdownDelay, and requests in flight
// may finish within Options.Grace. Run fails at once if it cannot listen, or if the server has no functions.
// An API server that does not answer is not a failure: the server retries, and is not ready until then.
//
// When Run returns, all its goroutines have returned. A function that ignores its context delays that.
func (s *Server) Run(ctx context.Context) error {
	if err := s.begin(); err != nil {
		return err
	}
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", s.options.Address)
	switch {
	case err != nil && ctx.Err() != nil:
		return nil // Looking up a host name ends with ctx.
	case err != nil:
		return fmt.Errorf("webhook: Address cannot be listened on; choose another one, or port 0 for any free one: %w", err)
	}
	if s.target.url != nil && s.target.url.Port() == "" {
		with := *s.target.url
		_, port, _ := net.SplitHostPort(listener.Addr().String())
		with.Host = net.JoinHostPort(with.Hostname(), port)
		s.target.url = &with
	}
	// Requests and rotation outlast ctx by the time that a graceful end takes.
	group := lifecycle.New(context.WithoutCancel(ctx))
	group.Go("keep certificates", newKeeper(s).run)
	served, end := context.WithCancel(context.Background())
	group.Go("log", func(context.Context) error { return s.failed.limit.Run(served) })
	group.Go("serve", func(serving context.Context) error {
		defer end() // after the last record about a request
		defer group.Stop()
		return s.serve(ctx, serving, listener)
	})
	if err := group.Wait(); err != nil {
		return fmt.Errorf("webhook: %w", err)
	}
	return nil
}

// begin prevents that functions are added from now on.
func (s *Server) begin() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.started:
		return errors.New("webhook: the server runs already, or has ended; make another one")
	case len(s.hooks)+len(s.conversions)+len(s.reviewed) == 0:
		return errors.New("webhook: the server has no functions; call Validate, Default, Convert or one of the Reviews before Run")
	}
	s.started = true
	s.metrics.expect(s.hooks)
	s.fail(errors.New("there is no certificate yet"))
	return nil
}

// handler returns the handler of all paths.
func (s *Server) handler() http.Handler {
	mux := http.NewServeMux()
	for _, hook := range s.hooks {
		mux.Handle(hook.path(), s.reviews(hook.path(), hook.timeout, maxAdmission, func(ctx context.Context, body []byte, counted *seen) (any, error) {
			return s.admit(ctx, hook, body, counted)
		}))
	}
	if len(s.conversions) > 0 {
		mux.Handle(conversionPath, s.reviews(conversionPath, maxTimeout, maxConversion, converting(s.convert)))
	}
	for _, conversion := range s.reviewed {
		mux.Handle(conversion.path, s.reviews(conversion.path, maxTimeout, maxConversion, converting(conversion.review.answer)))
	}
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if err := s.Ready(); err != nil {
			http.Error(w, "not ready: the log says why", http.StatusServiceUnavailable) // The error may quote answers to the operator.
			return
		}
		fmt.Fprintln(w, "ok")
	})
	return mux
}
