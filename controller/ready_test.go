package controller

import (
	"context"
	"errors"
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
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
)

// The health server has no protection, so each client in the network may read its answers.
func TestReadinessNamesAKeyThatFailsWithoutTheMessageOfItsError(t *testing.T) {
	const value = "hunter2"
	for name, test := range map[string]struct {
		reconcile func() error
		reason    string
	}{
		"a panic":           {func() error { panic(value) }, "a panic"},
		"an error":          {func() error { return errors.New(value) }, "an error"},
		"of the API server": {func() error { return apierrors.NewBadRequest(value) }, "BadRequest"},
		"of a webhook": {func() error {
			return &apierrors.StatusError{ErrStatus: metav1.Status{Code: http.StatusForbidden, Reason: value}}
		}, "Forbidden"},
		"an exceeded budget": {func() error { return operators.ErrTimeout }, "its timeout"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server, err := sourcestest.New(sourcestest.Options{Scheme: scheme.Scheme})
				if err != nil {
					t.Fatal(err)
				}
				if err := server.Create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "s"}}); err != nil {
					t.Fatal(err)
				}
				m, err := NewManager(server.Config(), scheme.Scheme, Options{Logger: slog.New(slog.DiscardHandler)})
				if err != nil {
					t.Fatal(err)
				}
				if err := m.Add("vault", func(context.Context, operators.Request) (time.Duration, error) { return 0, test.reconcile() }, For(&corev1.Secret{})); err != nil {
					t.Fatal(err)
				}
				group := lifecycle.New(t.Context())
				group.Go("manager", m.Run)
				<-time.After(time.Minute)
				synctest.Wait()
				for _, path := range []string{"/readyz", "/readyz?level=Converged"} {
					recorder := httptest.NewRecorder()
					m.ready(recorder, httptest.NewRequest(http.MethodGet, path, nil))
					said := recorder.Body.String()
					if !strings.Contains(said, "vault a/s (failed ") || !strings.Contains(said, " times, at last by "+test.reason+"; the log has the error)") || strings.Contains(said, value) {
						t.Errorf("%s says %q, want the key and %q, without the message", path, said, test.reason)
					}
				}
				group.Stop()
				if err := group.Wait(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}
