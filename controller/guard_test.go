package controller

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

const canary = "canary-of-a-token"

// reviewer is an API server that reviews tokens. A token is "<user>.<anything>", and may get /metrics if
// the user is "prometheus".
type reviewer struct {
	mu      sync.Mutex
	tokens  int                                                // the TokenReviews
	access  []authorizationv1.SubjectAccessReviewSpec          // what was asked
	instead func(request *http.Request, body []byte) *response // answers before the others, if it is not nil
	logged  *bytes.Buffer
}

type response struct {
	code int
	body string
}

func (r *reviewer) RoundTrip(request *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(request.Body)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	instead := r.instead
	r.mu.Unlock()
	if instead != nil {
		if said := instead(request, body); said != nil {
			return answer(request, said.code, said.body), nil
		}
		<-request.Context().Done()
		return nil, request.Context().Err()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	var said runtime.Object
	switch request.URL.Path {
	case "/apis/authentication.k8s.io/v1/tokenreviews":
		r.tokens++
		review := authenticationv1.TokenReview{}
		if _, _, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, &review); err != nil {
			return nil, err
		}
		user, _, valid := strings.Cut(review.Spec.Token, ".")
		review.Status = authenticationv1.TokenReviewStatus{Authenticated: valid, User: authenticationv1.UserInfo{
			Username: user, UID: "1", Groups: []string{"all"}, Extra: map[string]authenticationv1.ExtraValue{"pod": {"p"}},
		}}
		said = &review
	case "/apis/authorization.k8s.io/v1/subjectaccessreviews":
		review := authorizationv1.SubjectAccessReview{}
		if _, _, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, &review); err != nil {
			return nil, err
		}
		r.access = append(r.access, review.Spec)
		review.Status.Allowed = review.Spec.User == "prometheus" && review.Spec.NonResourceAttributes.Path == "/metrics"
		said = &review
	default:
		return nil, fmt.Errorf("unexpected request: %s", request.URL.Path)
	}
	encoded, err := json.Marshal(said)
	return answer(request, http.StatusCreated, string(encoded)), err
}

func answer(request *http.Request, code int, body string) *http.Response {
	return &http.Response{
		StatusCode: code, Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(strings.NewReader(body)), Request: request,
	}
}

// behind returns a handler that answers "open" behind the guard of a manager of an API server.
func behind(t *testing.T, api *reviewer) *guarded {
	t.Helper()
	api.logged = &bytes.Buffer{}
	log := slog.New(slog.NewTextHandler(api.logged, nil))
	made, err := NewManager(&rest.Config{Transport: api}, scheme.Scheme, Options{Protection: Protected, Logger: log})
	if err != nil {
		t.Fatal(err)
	}
	return &guarded{made.guard, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "open") })}
}

// get returns the answer to a request with a token.
func get(t *testing.T, from http.Handler, path, token string) (int, string) {
	t.Helper()
	request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	recorded := httptest.NewRecorder()
	from.ServeHTTP(recorded, request)
	said := recorded.Body.String()
	if strings.Contains(said, canary) {
		t.Errorf("the answer has the token: %s", said)
	}
	if wants := recorded.Header().Get("WWW-Authenticate") != ""; wants != (recorded.Code == http.StatusUnauthorized) {
		t.Errorf("the answer %d has WWW-Authenticate: %t", recorded.Code, wants)
	}
	return recorded.Code, said
}

// wantAnswer checks the answer to a request.
func wantAnswer(t *testing.T, from http.Handler, path, token string, code int, says string) {
	t.Helper()
	if got, said := get(t, from, path, token); got != code || !strings.Contains(said, says) {
		t.Errorf("%s with %q answers %d %q, want %d %q", path, token, got, said, code, says)
	}
}

func TestAGuardLetsPassWhomTheAPIServerAllowsTheURL(t *testing.T) {
	api := &reviewer{}
	handler := behind(t, api)
	wantAnswer(t, handler, "/metrics", "", http.StatusUnauthorized, "Authorization: Bearer <token>")
	if api.tokens != 0 {
		t.Error("a request without a token was reviewed")
	}
	wantAnswer(t, handler, "/metrics", canary, http.StatusUnauthorized, "does not accept the token")
	wantAnswer(t, handler, "/metrics", "jane.1", http.StatusForbidden, `"jane" may not get this URL`)
	wantAnswer(t, handler, "/metrics", "prometheus.1", http.StatusOK, "open")
	wantAnswer(t, handler, "/debug/pprof/heap", "prometheus.1", http.StatusForbidden, "may not get this URL")
	want := `{"nonResourceAttributes":{"path":"/metrics","verb":"get"},"user":"prometheus","groups":["all"],"extra":{"pod":["p"]},"uid":"1"}`
	if got, err := json.Marshal(api.access[1]); err != nil || string(got) != want {
		t.Errorf("the review asks %s, want %s: %v", got, want, err)
	}
	request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil)
	request.Header.Set("Authorization", "Basic prometheus.1")
	recorded := httptest.NewRecorder()
	handler.ServeHTTP(recorded, request)
	if recorded.Code != http.StatusUnauthorized {
		t.Errorf("another scheme is answered with %d", recorded.Code)
	}
}

func TestAPermissionCountsForAMinuteAndARefusalForTenSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := &reviewer{}
		handler := behind(t, api)
		reviews := func(after time.Duration, token string, want int) {
			t.Helper()
			advance(after)
			before := api.tokens
			get(t, handler, "/metrics", token)
			if got := api.tokens - before; got != want {
				t.Errorf("%d reviews of %q, want %d", got, token, want)
			}
		}
		reviews(0, "prometheus.1", 1)
		reviews(allowedFor-1, "prometheus.1", 0)
		reviews(1, "prometheus.1", 1)
		reviews(0, "prometheus.2", 1)
		for _, refused := range []string{"jane.1", canary} {
			reviews(0, refused, 1)
			reviews(refusedFor-1, refused, 0)
			reviews(1, refused, 1)
		}
	})
}

// advance lets virtual time pass.
func advance(by time.Duration) { <-time.After(by) }

func TestAFloodOfTokensDisplacesNoPermissionAndMemoryIsBounded(t *testing.T) {
	api := &reviewer{}
	handler := behind(t, api)
	wantAnswer(t, handler, "/metrics", "prometheus.1", http.StatusOK, "open")
	for i := range 2 * maxVerdicts {
		get(t, handler, "/metrics", fmt.Sprint(canary, i))
		get(t, handler, fmt.Sprint("/other/", i), "prometheus.1")
	}
	before := api.tokens
	wantAnswer(t, handler, "/metrics", "prometheus.1", http.StatusOK, "open")
	if api.tokens != before {
		t.Error("the flood displaced a permission")
	}
	if allowed, refused := handler.by.allowed.Len(), handler.by.refused.Len(); allowed != 1 || refused != maxVerdicts {
		t.Errorf("%d permissions and %d refusals are kept, want 1 and %d", allowed, refused, maxVerdicts)
	}
}

func TestAnAPIServerThatHangsRefusesEachRequestInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := &reviewer{}
		handler := behind(t, api)
		wantAnswer(t, handler, "/metrics", "prometheus.1", http.StatusOK, "open")
		inFlight, most := 0, 0
		api.instead = func(request *http.Request, _ []byte) *response {
			count := func(change int) {
				api.mu.Lock()
				defer api.mu.Unlock()
				inFlight += change
				most = max(most, inFlight)
			}
			count(1)
			<-request.Context().Done()
			count(-1)
			return nil
		}
		started := time.Now()
		group := lifecycle.New(t.Context())
		for i := range 3 * maxReviews {
			group.Go("request", func(context.Context) error {
				wantAnswer(t, handler, "/metrics", fmt.Sprint("prometheus.", canary, i), http.StatusServiceUnavailable, "does not review the request")
				return nil
			})
		}
		synctest.Wait()
		wantAnswer(t, handler, "/metrics", "prometheus.1", http.StatusOK, "open") // Remembered.
		if err := group.Wait(); err != nil {
			t.Error(err)
		}
		if took := time.Since(started); took != reviewTime || most != maxReviews {
			t.Errorf("the requests took %v with %d reviews at once, want %v and %d", took, most, reviewTime, maxReviews)
		}
		if lines := strings.Count(api.logged.String(), "\n"); lines != 1 {
			t.Errorf("%d lines are logged, want 1:\n%s", lines, api.logged)
		}
		advance(logReviews)
		api.instead = nil
		wantAnswer(t, handler, "/metrics", "prometheus.1", http.StatusOK, "open") // A failure is not remembered.
	})
}

func TestAFloodOfTokensHoldsUpNoClientThatWasAllowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := &reviewer{}
		handler := behind(t, api)
		wantAnswer(t, handler, "/metrics", "prometheus.1", http.StatusOK, "open")
		advance(allowedFor)
		api.instead = func(*http.Request, []byte) *response { return nil }
		group := lifecycle.New(t.Context())
		for i := range 10 * maxReviews {
			group.Go("request", func(context.Context) error {
				get(t, handler, "/metrics", fmt.Sprint(canary, i))
				return nil
			})
		}
		synctest.Wait()
		api.mu.Lock()
		api.instead = nil
		api.mu.Unlock()
		started := time.Now()
		wantAnswer(t, handler, "/metrics", "prometheus.1", http.StatusOK, "open")
		if took := time.Since(started); took != 0 {
			t.Errorf("it took %v", took)
		}
		if err := group.Wait(); err != nil {
			t.Error(err)
		}
	})
}

func TestAClientThatGoesIsNoFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := &reviewer{instead: func(*http.Request, []byte) *response { return nil }}
		handler := behind(t, api)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		request := httptest.NewRequestWithContext(ctx, http.MethodGet, "/metrics", nil)
		request.Header.Set("Authorization", "Bearer prometheus.1")
		handler.ServeHTTP(httptest.NewRecorder(), request)
		api.instead = nil
		wantAnswer(t, handler, "/metrics", "prometheus.1", http.StatusOK, "open")
		if api.logged.Len() > 0 {
			t.Errorf("logged: %s", api.logged)
		}
	})
}

func TestNonsenseOfTheAPIServerRefusesRequestsAndShowsNoToken(t *testing.T) {
	tokens := func(said string) func(*http.Request, []byte) *response {
		return func(*http.Request, []byte) *response { return &response{http.StatusCreated, said} }
	}
	access := func(code int, said string) func(*http.Request, []byte) *response {
		return func(request *http.Request, _ []byte) *response {
			if strings.HasSuffix(request.URL.Path, "/tokenreviews") {
				return &response{http.StatusCreated, `{"status":{"authenticated":true,"user":{"username":"jane"}}}`}
			}
			return &response{code, said}
		}
	}
	for name, test := range map[string]struct {
		instead func(*http.Request, []byte) *response
		code    int
		says    string
	}{
		"no JSON":                   {tokens("<html>"), http.StatusServiceUnavailable, "does not review"},
		"an empty object":           {tokens("{}"), http.StatusUnauthorized, "does not accept"},
		"no user":                   {tokens(`{"status":{"authenticated":true}}`), http.StatusServiceUnavailable, "does not review"},
		"an error with the user":    {tokens(`{"status":{"authenticated":false,"error":"` + canary + `","user":{"username":"jane"}}}`), http.StatusUnauthorized, "does not accept"},
		"an empty access":           {access(http.StatusCreated, "{}"), http.StatusForbidden, "may not get"},
		"an access that is denied":  {access(http.StatusCreated, `{"status":{"allowed":true,"denied":true}}`), http.StatusForbidden, "may not get"},
		"an access that is no JSON": {access(http.StatusCreated, "<html>"), http.StatusServiceUnavailable, "does not review"},
		"an access that fails":      {access(http.StatusInternalServerError, "{}"), http.StatusServiceUnavailable, "does not review"},
		"an echo of the token": {func(_ *http.Request, body []byte) *response {
			return &response{http.StatusBadRequest, fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","status":"Failure","message":%q}`, body)}
		}, http.StatusServiceUnavailable, "does not review"},
		"no permission of the manager": {func(*http.Request, []byte) *response {
			return &response{http.StatusForbidden, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403}`}
		}, http.StatusServiceUnavailable, "bind it to the ClusterRole system:auth-delegator"},
	} {
		t.Run(name, func(t *testing.T) {
			api := &reviewer{instead: test.instead}
			handler := behind(t, api)
			wantAnswer(t, handler, "/metrics", canary, test.code, test.says)
			if logged := api.logged.String(); strings.Contains(logged, canary) || (test.code == http.StatusServiceUnavailable) != (logged != "") {
				t.Errorf("logged: %s", logged)
			}
		})
	}
}

func TestInAClusterTheServersAreProtectedUnlessAnOptionSaysOtherwise(t *testing.T) {
	for _, test := range []struct {
		options   Options
		inCluster bool
		want      Protection
	}{
		{Options{MetricsAddress: ":8080"}, true, Protected},
		{Options{MetricsAddress: "127.0.0.1:8080"}, true, Protected},
		{Options{MetricsAddress: "127.0.0.1:8080"}, false, Unprotected},
		{Options{MetricsAddress: ":8080", Protection: Unprotected}, true, Unprotected},
		{Options{MetricsAddress: ":8080", Protection: Protected}, false, Protected},
	} {
		options := test.options
		if err := options.checkAddresses(test.inCluster); err != nil || options.Protection != test.want {
			t.Errorf("%+v in a cluster (%t) gets %q, want %q: %v", test.options, test.inCluster, options.Protection, test.want, err)
		}
	}
	// Only the pod's own cluster counts. Without the files of a ServiceAccount there is none.
	t.Setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
	t.Setenv("KUBERNETES_SERVICE_PORT", "443")
	if InCluster(&rest.Config{Host: "https://192.168.0.1:6443"}) {
		t.Error("another cluster counts as the one that the process runs in")
	}
}

func TestTheManagersOwnCertificateIsRenewedInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		made, err := newServingCertificate(CertificateFiles{}, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		serves := func(after time.Duration, serial *big.Int) *big.Int {
			t.Helper()
			advance(after)
			certificate, err := made.get(nil)
			if err != nil {
				t.Fatal(err)
			}
			now := time.Now()
			if leaf := certificate.Leaf; now.Before(leaf.NotBefore.Add(ownEarlier)) || now.After(leaf.NotAfter.Add(-ownRenewal)) {
				t.Errorf("at %v, the certificate is valid from %v to %v", now, leaf.NotBefore, leaf.NotAfter)
			}
			if same := serial != nil && serial.Cmp(certificate.Leaf.SerialNumber) == 0; same != (serial != nil && after < time.Hour) {
				t.Errorf("after %v, the certificate is the same: %t", after, same)
			}
			return certificate.Leaf.SerialNumber
		}
		first := serves(0, nil)
		first = serves(time.Minute, first)
		serves(ownLifetime-ownRenewal, first)
	})
}
