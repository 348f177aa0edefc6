package webhook

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	admissionv1 "k8s.io/api/admission/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// serve serves requests until stopping ends and requests in flight have finished. The requests have a
// context below serving.
func (s *Server) serve(stopping, serving context.Context, listener net.Listener) error {
	requests, cancel := context.WithCancel(serving)
	defer cancel()
	inFlight := &inFlight{handler: s.leaving(s.handler())}
	server := &http.Server{
		Handler:           inFlight,
		BaseContext:       func(net.Listener) context.Context { return requests },
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       maxTimeout,
		WriteTimeout:      2 * maxTimeout,
		IdleTimeout:       2 * time.Minute,
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelDebug), // Scans of ports, and handshakes before the first certificate.
		TLSConfig:         &tls.Config{MinVersion: tls.VersionTLS13, GetCertificate: s.certificate},
	}
	group := lifecycle.New(serving)
	group.Go("stop", func(ctx context.Context) error {
		select {
		case <-stopping.Done():
		case <-ctx.Done():
			return server.Close() // Something else has failed.
		}
		s.draining.Store(true)
		delay := time.NewTimer(s.options.ShutdownDelay)
		defer delay.Stop()
		select {
		case <-delay.C:
		case <-ctx.Done():
		}
		grace, end := context.WithTimeout(ctx, s.options.Grace)
		defer end()
		if server.Shutdown(grace) != nil {
			cancel()
			return server.Close()
		}
		return nil
	})
	s.log.Info("webhook server listens", "address", listener.Addr().String())
	err := server.ServeTLS(listener, "", "")
	if !errors.Is(err, http.ErrServerClosed) {
		group.Stop()
	}
	stopErr := group.Wait()
	inFlight.wait()
	if errors.Is(err, http.ErrServerClosed) {
		return stopErr
	}
	return fmt.Errorf("serving on %s: %w", listener.Addr(), err)
}

// leaving closes each connection after its next answer while the server stops. An API server sends a review again only if it
// had not begun to send it. So a connection that ended just then would fail the request of a user.
func (s *Server) leaving(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		if s.draining.Load() {
			w.Header().Set("Connection", "close")
		}
		handler.ServeHTTP(w, request)
	})
}

// inFlight passes requests to a handler, and waits for their end.
type inFlight struct {
	handler http.Handler
	mu      sync.Mutex
	ended   bool
	running sync.WaitGroup
}

// ServeHTTP serves a request, unless wait was called.
func (i *inFlight) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	i.mu.Lock()
	if i.ended {
		i.mu.Unlock()
		http.Error(w, "the server has ended", http.StatusServiceUnavailable)
		return
	}
	i.running.Add(1)
	i.mu.Unlock()
	defer i.running.Done()
	i.handler.ServeHTTP(w, request)
}

// wait waits until the handler has returned from all requests.
func (i *inFlight) wait() {
	i.mu.Lock()
	i.ended = true
	i.mu.Unlock()
	i.running.Wait()
}

// certificate returns the certificate in use, for a handshake.
func (s *Server) certificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	if held := s.served.Load(); held != nil {
		return &held.certificate, nil
	}
	return nil, errors.New("there is no certificate yet")
}

// refused is an error of a request that is answered with a code.
type refused struct {
	code    int
	message string
}

func (r *refused) Error() string { return r.message }

// reviews returns a handler that checks a request, and answers with what review returns. An error is a failure
// of the webhook, not a denial. Only the log gets the stack of a panic.
func (s *Server) reviews(path string, timeout time.Duration, most int64, review func(ctx context.Context, body []byte, counted *seen) (any, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		counted := &seen{operation: "unknown", code: http.StatusOK}
		defer s.metrics.begin(path, counted)()
		fail := func(code int, text string) {
			counted.code = code
			http.Error(w, text, code)
		}
		body, release, err := s.bodies.read(w, request, most)
		defer release()
		if err != nil {
			fail(err.code, err.Error())
			return
		}
		ctx, cancel := context.WithTimeout(request.Context(), timeoutOf(request, timeout))
		defer cancel()
		var answer any
		failure := lifecycle.Guard(func() (err error) { answer, err = review(ctx, body, counted); return err })
		var panicked *lifecycle.PanicError
		var wrong *refused
		failed := s.failed.about(path, failure)
		switch {
		case errors.As(failure, &panicked):
			failed.Error("webhook panicked", "path", path, "error", failed.failure, "stack", string(panicked.Stack))
			fail(http.StatusInternalServerError, "the function of the webhook panicked; its log has the details")
		case errors.As(failure, &wrong):
			fail(wrong.code, wrong.message)
		case errors.Is(failure, context.DeadlineExceeded):
			failed.Warn("webhook took too long", "path", path)
			fail(http.StatusGatewayTimeout, "the function of the webhook took too long")
		case failure != nil:
			failed.Warn("webhook failed", "path", path, "error", failed.failure)
			fail(http.StatusInternalServerError, failure.Error())
		default:
			w.Header().Set("Content-Type", "application/json")
			if err := json.NewEncoder(w).Encode(answer); err != nil {
				s.log.Debug("webhook could not answer", "path", path, "error", err)
			}
		}
	})
}

// timeoutOf returns the timeout that the API server names in the URL, if it is shorter.
func timeoutOf(request *http.Request, most time.Duration) time.Duration {
	named, err := time.ParseDuration(request.URL.Query().Get("timeout"))
	if err != nil || named <= 0 || named > most {
		return most
	}
	return named
}

// badRequest returns an error of a request that is not what an API server sends.
func badRequest(format string, arguments ...any) error {
	return &refused{http.StatusBadRequest, fmt.Sprintf(format, arguments...)}
}

// unmarshal decodes a review of a kind.
func unmarshal(body []byte, kind schema.GroupVersionKind, review any) error {
	var named metav1.TypeMeta
	if err := json.Unmarshal(body, &named); err != nil {
		return badRequest("the body is not a %s: it is not JSON", kind.Kind)
	}
	if named.GroupVersionKind() != kind {
		return badRequest("the body is %s %s; only %s %s is supported", named.APIVersion, named.Kind, kind.GroupVersion(), kind.Kind)
	}
	if err := json.Unmarshal(body, review); err != nil {
		return badRequest("the body is not a valid %s", kind.Kind)
	}
	return nil
}

// admit answers a review of admission.
func (s *Server) admit(ctx context.Context, hook *hook, body []byte, counted *seen) (any, error) {
	var review admissionv1.AdmissionReview
	if err := unmarshal(body, admissionv1.SchemeGroupVersion.WithKind("AdmissionReview"), &review); err != nil {
		return nil, err
	}
	request := review.Request
	if request == nil || request.UID == "" {
		return nil, badRequest("the AdmissionReview has no request with a uid")
	}
	counted.asks(request.Operation)
	if asked := schema.GroupVersionKind(request.Kind); hook.given == nil && asked != hook.kind {
		return nil, badRequest("the request is for %v; this path is for %v", asked, hook.kind)
	}
	if hook.given == nil && request.SubResource != hook.subresource {
		return nil, badRequest("the request is for the subresource %q; this path is for %q", request.SubResource, hook.subresource)
	}
	answer, err := hook.handle(ctx, request)
	if err != nil {
		return nil, err
	}
	if !answer.Allowed {
		counted.code = int(answer.Result.Code)
	}
	answer.UID = request.UID
	return &admissionv1.AdmissionReview{TypeMeta: review.TypeMeta, Response: answer}, nil
}

// converting returns a function that answers reviews of conversion.
func converting(convert func(context.Context, *apiextensionsv1.ConversionRequest) *apiextensionsv1.ConversionResponse) func(context.Context, []byte, *seen) (any, error) {
	return func(ctx context.Context, body []byte, counted *seen) (any, error) {
		var review apiextensionsv1.ConversionReview
		if err := unmarshal(body, apiextensionsv1.SchemeGroupVersion.WithKind("ConversionReview"), &review); err != nil {
			return nil, err
		}
		if review.Request == nil || review.Request.UID == "" {
			return nil, badRequest("the ConversionReview has no request with a uid")
		}
		counted.operation = convertOperation
		answer := convert(ctx, review.Request)
		if answer.Result.Status != metav1.StatusSuccess {
			counted.code = http.StatusUnprocessableEntity
		}
		return &apiextensionsv1.ConversionReview{TypeMeta: review.TypeMeta, Response: answer}, nil
	}
}
