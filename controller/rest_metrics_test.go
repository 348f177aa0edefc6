package controller_test

import (
	"errors"
	"io"
	"log/slog"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bellerophon-io/bellerophon/cache"
	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

// failing is a transport that may return an error.
type failing func(*http.Request) (*http.Response, error)

func (f failing) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }

// measured returns the client of a manager with the given registry and API server.
func measured(t *testing.T, registry *prometheus.Registry, host string, api failing) *controller.Client {
	t.Helper()
	m, err := controller.NewManager(&rest.Config{Host: host, Transport: api}, scheme.Scheme,
		controller.Options{Registry: registry, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	add(t, m, nothing)
	return m.Client()
}

func wantValue(t *testing.T, registry *prometheus.Registry, series string, want float64) {
	t.Helper()
	if got, _ := value(t, registry, series); got != want {
		t.Errorf("%s is %v, want %v", series, got, want)
	}
}

func TestEachManagerCountsItsOwnRequests(t *testing.T) {
	answers := func(*http.Request) (*http.Response, error) { return says(http.StatusCreated, pod("x", "6")), nil }
	one, other := prometheus.NewRegistry(), prometheus.NewRegistry()
	first, second := measured(t, one, "http://one", answers), measured(t, other, "http://other", answers)
	for _, c := range []*controller.Client{first, second, second} {
		if _, err := controller.Create(t.Context(), c, pod("x", "")); err != nil {
			t.Fatal(err)
		}
	}
	wantValue(t, one, "rest_client_requests_total{code=201,host=one,method=POST}", 1)
	wantValue(t, one, "rest_client_request_duration_seconds{host=one,verb=POST}", 1)
	wantValue(t, one, "rest_client_requests_total{code=201,host=other,method=POST}", 0)
	wantValue(t, other, "rest_client_requests_total{code=201,host=other,method=POST}", 2)
	wantValue(t, other, "rest_client_request_duration_seconds{host=other,verb=POST}", 2)
	wantValue(t, other, "rest_client_requests_total{code=201,host=one,method=POST}", 0)
}

func TestRequestsAreCountedByTheirCodeOrAsFailed(t *testing.T) {
	registry := prometheus.NewRegistry()
	c := measured(t, registry, "http://api", func(request *http.Request) (*http.Response, error) {
		if request.Method == http.MethodPost {
			return nil, errors.New("the network is gone")
		}
		return refusal(http.StatusConflict, metav1.StatusReasonConflict, "no"), nil
	})
	if _, err := controller.Create(t.Context(), c, pod("x", "")); err == nil {
		t.Error("a creation without an answer has succeeded")
	}
	if _, err := controller.Patch(t.Context(), c, labelled(pod("x", "5")), controller.MergeFrom(pod("x", "5"))); err == nil {
		t.Error("a patch that was refused has succeeded")
	}
	wantValue(t, registry, "rest_client_requests_total{code=<error>,host=api,method=POST}", 1)
	wantValue(t, registry, "rest_client_request_duration_seconds{host=api,verb=POST}", 1)
	wantValue(t, registry, "rest_client_requests_total{code=409,host=api,method=PATCH}", 1)
	wantValue(t, registry, "rest_client_request_duration_seconds{host=api,verb=PATCH}", 1)
}

// slowBody is the body of an answer that arrives after a second.
type slowBody struct {
	io.Reader
	came bool
}

func (s *slowBody) Read(space []byte) (int, error) {
	if !s.came {
		<-time.After(time.Second)
		s.came = true
	}
	return s.Reader.Read(space)
}

func TestARequestIsTimedUntilItsAnswerHasCome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		registry := prometheus.NewRegistry()
		c := measured(t, registry, "http://api", func(*http.Request) (*http.Response, error) {
			answer := says(http.StatusCreated, pod("x", "6"))
			answer.Body = io.NopCloser(&slowBody{Reader: answer.Body})
			return answer, nil
		})
		if _, err := controller.Create(t.Context(), c, pod("x", "")); err != nil {
			t.Fatal(err)
		}
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, family := range families {
			if family.GetName() != "rest_client_request_duration_seconds" {
				continue
			}
			if got := family.GetMetric()[0].GetHistogram().GetSampleSum(); got != 1 {
				t.Errorf("the duration is %v s, want 1", got)
			}
			return
		}
		t.Error("no duration is measured")
	})
}

func TestAWatchIsCountedAndNotTimed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		registry := prometheus.NewRegistry()
		var watches, others atomic.Int64
		m := manager(t, func(request *http.Request) *http.Response {
			if request.URL.Query().Get("watch") == "true" {
				watches.Add(1)
			} else {
				others.Add(1)
			}
			return onePod(request)
		}, controller.Options{Registry: registry})
		add(t, m, nothing)
		group := lifecycle.New(t.Context())
		group.Go("manager", m.Run)
		if err := m.Cache().Wait(t.Context(), cache.Settled); err != nil {
			t.Error(err)
		}
		group.Stop() // This ends the watches.
		if err := group.Wait(); err != nil {
			t.Error(err)
		}
		if watches.Load() == 0 || others.Load() == 0 {
			t.Fatalf("there were %d watches and %d other requests", watches.Load(), others.Load())
		}
		wantValue(t, registry, "rest_client_requests_total{code=200,host=localhost,method=GET}", float64(watches.Load()+others.Load()))
		wantValue(t, registry, "rest_client_request_duration_seconds{host=localhost,verb=GET}", float64(others.Load()))
	})
}

func TestARegistryThatHasMetricsOfRequestsKeepsThem(t *testing.T) {
	registry := prometheus.NewRegistry()
	users := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "rest_client_requests_total", Help: "Of the user."}, []string{"code", "method", "host"})
	registry.MustRegister(users)
	c := measured(t, registry, "http://api", func(*http.Request) (*http.Response, error) {
		return says(http.StatusCreated, pod("x", "6")), nil
	})
	if _, err := controller.Create(t.Context(), c, pod("x", "")); err != nil {
		t.Fatal(err)
	}
	wantValue(t, registry, "rest_client_requests_total{code=201,host=api,method=POST}", 0)
}
