package api

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/bellerophon-io/bellerophon/bellerophon/server/client"

	"github.com/bellerophon-io/bellerophon/bellerophon/server/member"
	"github.com/bellerophon-io/bellerophon/bellerophon/server/store"
)

// Options configures [New].
type Options struct {
	Member *member.Member
	// Client sends requests to other members.
	Client *client.Client
	Log    *slog.Logger
	// Patience is how long a request waits for a leader: 0 or more. The default is 5s.
	Patience time.Duration
	// Quota is how many bytes the keys and values may have together. The default is 256 MiB. A change that
	// would exceed it is refused.
	Quota int64
	// Count gets each request without the watches: its operation, such as PUT /v1/keys/, its code and its duration.
	Count func(operation string, code int, took time.Duration)
	// Metrics handles /metrics.
	Metrics http.Handler
	// Authenticated means that clients and members need a certificate, except for health and metrics.
	Authenticated bool
}

// Defaults of the options.
const (
	defaultPatience = 5 * time.Second
	defaultQuota    = 256 << 20
)

// strangerTimeout bounds the body of a request that needs none, and of a client without a certificate.
const strangerTimeout = 5 * time.Second

// API is an http.Handler for a member.
type API struct {
	Options
	member *member.Member
	mux    *http.ServeMux
	ending context.Context // of watches, which would delay the end of the server
}

const keysPath = "/v1/keys/"

// New creates the handler. Watches end with ctx.
func New(ctx context.Context, options Options) *API {
	if options.Patience <= 0 {
		options.Patience = defaultPatience
	}
	if options.Quota <= 0 {
		options.Quota = defaultQuota
	}
	a := &API{Options: options, member: options.Member, mux: http.NewServeMux(), ending: ctx}
	a.mux.HandleFunc("GET /healthz", a.alive)
	a.mux.HandleFunc("GET /readyz", a.ready)
	a.mux.Handle("GET /metrics", options.Metrics)
	for pattern, handle := range map[string]http.HandlerFunc{
		"GET /v1/keys":                       a.list,
		watchPattern:                         a.watch,
		"GET /v1/status":                     a.status,
		"GET " + client.ProgressPath:         a.progress,
		"PUT /v1/cluster":                    a.bootstrap,
		"PUT " + client.MembersPath + "{id}": a.join,
		"DELETE /v1/members/{id}":            a.leave,
		"PUT /v1/leader":                     a.transfer,
		"GET /v1/snapshot":                   a.backup,
		"PUT /v1/snapshot":                   a.restore,
		"GET " + member.Path:                 a.member.ServeHTTP,
	} {
		a.mux.Handle(pattern, a.authenticated(handle))
	}
	return a
}

const watchPattern = "GET /v1/watch"

// ServeHTTP handles a request.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	counted, began := &codes{ResponseWriter: w, code: http.StatusOK}, time.Now()
	operation := a.handle(counted, r)
	if operation != "" && operation != watchPattern {
		a.Count(operation, counted.code, time.Since(began))
	}
}

// codes remembers the code of an answer.
type codes struct {
	http.ResponseWriter
	code int
}

// WriteHeader sends a code and remembers it.
func (c *codes) WriteHeader(code int) {
	c.code = code
	c.ResponseWriter.WriteHeader(code)
}

// Unwrap returns the writer beneath, for http.ResponseController.
func (c *codes) Unwrap() http.ResponseWriter { return c.ResponseWriter }

// handle handles a request, and returns its operation.
func (a *API) handle(w http.ResponseWriter, r *http.Request) (operation string) {
	// net/http reads a body before it answers, also where a request needs none. The body may never come.
	if r.ContentLength != 0 {
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(strangerTimeout)) // As in authenticated.
	}
	// A ServeMux would clean keys such as a//b and redirect to them.
	if key, is := strings.CutPrefix(r.URL.Path, keysPath); is {
		a.authenticated(func(w http.ResponseWriter, r *http.Request) { a.key(w, r, key) })(w, r)
		return methodOf(r.Method) + " " + keysPath
	}
	_, pattern := a.mux.Handler(r)
	a.mux.ServeHTTP(w, r)
	return pattern
}

// methodOf returns a method of the keys, or one word for all others: a label of a metric must have few values.
func methodOf(method string) string {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPut, http.MethodDelete:
		return method
	}
	return "other"
}

// authenticated refuses clients without a certificate, if members have one. The others may send a body for as long as they need.
func (a *API) authenticated(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if a.Authenticated && (r.TLS == nil || len(r.TLS.VerifiedChains) == 0) {
			refuse(w, http.StatusUnauthorized, errors.New("this path needs a client certificate of the cluster's authority"))
			return
		}
		if r.ContentLength != 0 {
			_ = http.NewResponseController(w).SetReadDeadline(time.Time{}) // A writer of a test has no deadline.
		}
		next(w, r)
	}
}

// refuse answers that nothing was changed.
func refuse(w http.ResponseWriter, code int, err error) {
	answer(w, code, client.Failure{Error: err.Error(), Changed: "no"})
}

func answer(w http.ResponseWriter, code int, body any) {
	w.Header().Set("Content-Type", "application/json")
	if code == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "1")
	}
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(body) // The client has gone, or reads it.
}

// fail answers with the code of an error.
func fail(w http.ResponseWriter, err error) {
	code := http.StatusInternalServerError
	var refused refusedError
	switch {
	case errors.As(err, &refused):
		answer(w, http.StatusPreconditionFailed, client.Failure{Error: err.Error(), Changed: "no", Revision: &refused.has})
		return
	case errors.Is(err, client.ErrUnknown):
		answer(w, http.StatusGatewayTimeout, client.Failure{Error: err.Error(), Changed: "unknown"})
		return
	case errors.Is(err, client.ErrNotLeader), errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		code = http.StatusServiceUnavailable
	case errors.Is(err, store.ErrInvalid), errors.Is(err, store.ErrDamaged):
		code = http.StatusBadRequest
	case errors.Is(err, client.ErrNoMember):
		code = http.StatusNotFound
	case errors.Is(err, client.ErrLastVoter), errors.Is(err, client.ErrOtherCluster):
		code = http.StatusConflict
	case errors.Is(err, client.ErrNotEmpty):
		code = http.StatusPreconditionFailed
	case errors.Is(err, errFull):
		code = http.StatusInsufficientStorage
	}
	refuse(w, code, err)
}

// errFull means that the keys and values have reached their quota.
var errFull = errors.New("the store is full")

// current returns when the store of this member has every change that was acknowledged before. It waits for a
// leader.
func (a *API) current(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, a.Patience)
	defer cancel()
	for {
		changed := a.member.Changed()
		err := a.member.Read(ctx)
		if err == nil || !errors.Is(err, client.ErrNotLeader) {
			return err
		}
		if err := wait(ctx, changed, err); err != nil {
			return err
		}
	}
}

// again is after how long a request tries again when no change of the leadership was observed. A leader that was
// cut off from its majority is known by nothing else.
const again = 100 * time.Millisecond

// wait waits for a change of the leadership. When ctx ends, it returns the reason of the wait.
func wait(ctx context.Context, changed <-chan struct{}, reason error) error {
	timer := time.NewTimer(again)
	defer timer.Stop()
	select {
	case <-changed:
	case <-timer.C:
	case <-ctx.Done():
		return reason
	}
	return nil
}
