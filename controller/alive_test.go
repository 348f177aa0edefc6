package controller

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/operators"
	"github.com/bellerophon-io/bellerophon/sources/sourcestest"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
)

// Reconciles of one controller ignore their contexts, and others of it wait. Another controller works.
func TestAManagerIsNotAliveIfRequestsAreDueAndNothingMoves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, err := sourcestest.New(sourcestest.Options{Scheme: scheme.Scheme})
		if err != nil {
			t.Fatal(err)
		}
		m, err := NewManager(server.Config(), scheme.Scheme, Options{Workers: 4, Timeout: time.Minute, Grace: time.Second, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		released := make(chan struct{})
		hang := func(context.Context, operators.Request) (time.Duration, error) { <-released; return 0, nil }
		fail := func(context.Context, operators.Request) (time.Duration, error) { return 0, context.Canceled }
		if err := m.Add("wedged", hang, For(&corev1.ConfigMap{}), MaxConcurrentReconciles(2)); err != nil {
			t.Fatal(err)
		}
		if err := m.Add("failing", fail, For(&corev1.Secret{}), RetryBackoff(operators.Backoff{First: time.Hour, Max: time.Hour})); err != nil {
			t.Fatal(err)
		}
		create := func(name string) {
			if err := server.Create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name}}); err != nil {
				t.Fatal(err)
			}
		}
		answer := func() (int, string) {
			synctest.Wait()
			recorder := httptest.NewRecorder()
			m.alive(recorder, httptest.NewRequest(http.MethodGet, "/healthz", nil))
			return recorder.Code, recorder.Body.String()
		}
		create("x")
		create("y")
		if err := server.Create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "s"}}); err != nil {
			t.Fatal(err)
		}
		group := lifecycle.New(t.Context())
		group.Go("manager", m.Run)
		<-time.After(time.Hour)
		if code, said := answer(); code != http.StatusOK {
			t.Errorf("while nothing waits the answer is %d: %s", code, said)
		}
		create("z")
		<-time.After(time.Second)
		if code, said := answer(); code != http.StatusServiceUnavailable || !strings.Contains(said, "controller wedged: 1 requests are due, and nothing moves; the reconcile of a/") || strings.Contains(said, "failing") {
			t.Errorf("when a request waits the answer is %d: %s", code, said)
		}
		close(released)
		<-time.After(time.Second)
		if code, said := answer(); code != http.StatusOK {
			t.Errorf("when the reconciles have ended the answer is %d: %s", code, said)
		}
		group.Stop()
		if err := group.Wait(); err != nil {
			t.Error(err)
		}
	})
}
