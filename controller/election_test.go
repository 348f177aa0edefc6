package controller

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/operators"
	"github.com/bellerophon-io/bellerophon/sources/sourcestest"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

func TestSettingsOfTheElectionAreCheckedAgainstEachOther(t *testing.T) {
	const lease = "system/operator"
	for _, test := range []struct {
		given LeaderElection
		want  string // in the error, or nothing
	}{
		{LeaderElection{}, ""},
		{LeaderElection{Lease: lease}, ""},
		{LeaderElection{Lease: lease, LeaseDuration: time.Second}, ""},
		{LeaderElection{Lease: lease, LeaseDuration: time.Hour, RenewDeadline: 10 * time.Second}, ""},
		{LeaderElection{Lease: lease, LeaseDuration: 15 * time.Second, RenewDeadline: 14750 * time.Millisecond}, ""},
		{LeaderElection{LeaseDuration: time.Second}, "LeaderElection.Lease is empty, but other fields are set"},
		{LeaderElection{Lease: "operator"}, `LeaderElection.Lease is "operator"; give namespace/name`},
		{LeaderElection{Lease: "system/"}, `LeaderElection.Lease is "system/"`},
		{LeaderElection{Lease: "a/b/c"}, `LeaderElection.Lease is "a/b/c"`},
		{LeaderElection{Lease: lease, LeaseDuration: 500 * time.Millisecond}, "LeaderElection.LeaseDuration is 500ms; allowed are whole seconds, 1s to 1h0m0s"},
		{LeaderElection{Lease: lease, LeaseDuration: 1500 * time.Millisecond}, "LeaderElection.LeaseDuration is 1.5s; allowed are whole seconds"},
		{LeaderElection{Lease: lease, LeaseDuration: -time.Second}, "LeaderElection.LeaseDuration is -1s"},
		{LeaderElection{Lease: lease, LeaseDuration: 2 * time.Hour}, "LeaderElection.LeaseDuration is 2h0m0s"},
		{LeaderElection{Lease: lease, RenewDeadline: 15 * time.Second}, "LeaderElection.RenewDeadline is 15s; with a LeaseDuration of 15s, allowed is 40ms to 14.75s, because the rest is the time-out of a write that starts last"},
		{LeaderElection{Lease: lease, RenewDeadline: -1}, "LeaderElection.RenewDeadline is -1ns"},
		{LeaderElection{Lease: lease, RetryPeriod: 6 * time.Second}, "LeaderElection.RetryPeriod is 6s; with a RenewDeadline of 10s, allowed is 20ms to 5s, so that one renewal may fail"},
		{LeaderElection{Lease: lease, RetryPeriod: time.Millisecond}, "LeaderElection.RetryPeriod is 1ms"},
		{LeaderElection{Lease: lease, Identity: "a\nb"}, "LeaderElection.Identity has 3 bytes; allowed are up to 200 printable characters"},
		{LeaderElection{Lease: lease, Identity: strings.Repeat("a", 201)}, "LeaderElection.Identity has 201 bytes"},
	} {
		_, err := NewManager(&rest.Config{Host: "http://127.0.0.1:1"}, scheme.Scheme, Options{LeaderElection: test.given})
		if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("with %+v, NewManager returned %v, want %q in it", test.given, err, test.want)
		}
	}
}

func TestTwoProcessesNeverHaveOneIdentity(t *testing.T) {
	one, _, err := LeaderElection{Lease: "a/b", Identity: "pod-0"}.withDefaults()
	other, _, otherErr := LeaderElection{Lease: "a/b", Identity: "pod-0"}.withDefaults()
	if err := errors.Join(err, otherErr); err != nil || one.Identity == other.Identity || !strings.HasPrefix(one.Identity, "pod-0_") {
		t.Errorf("the identities are %q and %q, %v", one.Identity, other.Identity, err)
	}
}

// standing is a replica on a fake API server.
type standing struct {
	*Manager
	group *lifecycle.Group
	cut   atomic.Bool // renewals hang
	to    http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (s *standing) RoundTrip(request *http.Request) (*http.Response, error) {
	if s.cut.Load() && strings.Contains(request.URL.Path, "/leases") {
		<-request.Context().Done()
		return nil, request.Context().Err()
	}
	return s.to.RoundTrip(request)
}

func newStanding(t *testing.T, server *sourcestest.Server, identity string, reconcile operators.Reconciler) *standing {
	t.Helper()
	made := &standing{to: server, group: lifecycle.New(t.Context())}
	var err error
	made.Manager, err = NewManager(&rest.Config{Host: "http://sourcestest", Transport: made}, scheme.Scheme, Options{
		Grace: time.Second, Logger: slog.New(slog.DiscardHandler), LeaderElection: LeaderElection{Lease: "system/operator", Identity: identity},
	})
	if err == nil {
		err = made.Add("configs", reconcile, For(&corev1.ConfigMap{}))
	}
	if err != nil {
		t.Fatal(err)
	}
	made.group.Go("manager", made.Run)
	<-time.After(time.Second)
	return made
}

// says returns the answer of a handler.
func says(handler http.HandlerFunc, path string) (int, string) {
	synctest.Wait()
	recorder := httptest.NewRecorder()
	handler(recorder, httptest.NewRequest(http.MethodGet, path, nil))
	return recorder.Code, recorder.Body.String()
}

func TestAStandbyIsReadyAndSaysWhoLeads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, err := sourcestest.New(sourcestest.Options{Scheme: scheme.Scheme})
		if err == nil {
			err = server.Create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "x"}})
		}
		if err != nil {
			t.Fatal(err)
		}
		released := make(chan struct{})
		hang := func(context.Context, operators.Request) (time.Duration, error) { <-released; return 0, nil }
		first := newStanding(t, server, "first", hang)
		second := newStanding(t, server, "second", func(context.Context, operators.Request) (time.Duration, error) { return 0, nil })
		<-time.After(time.Minute)
		expect := func(when string, handler http.HandlerFunc, path string, code int, want string) {
			t.Helper()
			if got, said := says(handler, path); got != code || !strings.Contains(said, want) {
				t.Errorf("%s %s says %d %q, want %d and %q", when, path, got, said, code, want)
			}
		}
		expect("the leader's", first.ready, "/readyz", http.StatusOK, "leader: first_")
		expect("the standby's", second.ready, "/readyz", http.StatusOK, "which is held by first_")
		expect("the standby's", second.ready, "/readyz?level=Settled", http.StatusServiceUnavailable, "the Lease for configs (1)")
		expect("the leader's", first.alive, "/healthz", http.StatusOK, "ok")

		first.cut.Store(true)
		<-time.After(10 * time.Second)
		first.cut.Store(false)
		<-time.After(time.Second)
		expect("the deposed leader's", first.ready, "/readyz", http.StatusOK, "standby: first_")
		<-time.After(5 * time.Second)
		expect("the next leader's", second.ready, "/readyz", http.StatusOK, "leader: second_")
		expect("the next leader's", second.ready, "/readyz?level=Settled", http.StatusOK, "ok: ")
		expect("the deposed leader's", first.alive, "/healthz", http.StatusServiceUnavailable, "1 reconciles, runnables or writes of that time have not ended")
		close(released)
		<-time.After(time.Second)
		expect("the deposed leader's, when its reconcile has ended,", first.alive, "/healthz", http.StatusOK, "ok")

		events := &eventsv1.EventList{}
		if err := server.List(events); err != nil {
			t.Fatal(err)
		}
		found := map[string]bool{}
		for _, event := range events.Items {
			by, _, _ := strings.Cut(event.Note, "_")
			found[event.Reason+" "+by+" "+event.Regarding.Kind+" "+event.Regarding.Namespace+"/"+event.Regarding.Name] = true
		}
		for _, want := range []string{"LeaderElected first Lease system/operator", "LeaderLost first Lease system/operator", "LeaderElected second Lease system/operator"} {
			if !found[want] {
				t.Errorf("there is no Event %q in %v", want, found)
			}
		}
		for _, each := range []*standing{first, second} {
			each.group.Stop()
			if err := each.group.Wait(); err != nil {
				t.Error(err)
			}
		}
	})
}
