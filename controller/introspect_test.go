package controller

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bellerophon-io/bellerophon/controller/introspection"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/operators"
	"github.com/bellerophon-io/bellerophon/sources/sourcestest"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
)

func TestAnIntrospectionShowsWhatControllersDoAndWaitFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		server, err := sourcestest.New(sourcestest.Options{Scheme: scheme.Scheme})
		must(err)
		manager, err := NewManager(server.Config(), scheme.Scheme, Options{Logger: slog.New(slog.DiscardHandler), Backoff: operators.Backoff{First: time.Minute, Max: time.Hour}})
		must(err)
		for _, name := range []string{"fails", "ends", "stuck", "fine"} {
			must(server.Create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name}, Data: map[string]string{"x": canary}}))
		}
		leave := make(chan struct{})
		must(manager.Add("configs", func(_ context.Context, request operators.Request) (time.Duration, error) {
			switch request.Name {
			case "fails":
				return 0, errors.New(canary)
			case "ends":
				return 0, operators.Terminal(errors.New(canary))
			case "stuck":
				<-leave
			}
			return 0, nil
		}, For(&corev1.ConfigMap{}), Owns(&corev1.Pod{}, OnDemand()), Uses(&corev1.Service{}), ReconcileTimeout(time.Hour)))
		must(server.Uninstall(&corev1.Secret{}))
		idle := func(context.Context, operators.Request) (time.Duration, error) { return 0, nil }
		must(manager.Add("secrets", idle, For(&corev1.Secret{}), IfServed()))
		must(server.Uninstall(&corev1.ServiceAccount{}))
		must(manager.Add("accounts", idle, For(&corev1.ServiceAccount{})))
		before := shownBy(t, manager)
		if before.Level.String() != "Starting" || len(before.Controllers) != 3 || before.Controllers[1].Next == nil {
			t.Errorf("before Run it shows %+v", before)
		}
		begun := time.Now()
		group := lifecycle.New(t.Context())
		group.Go("manager", manager.Run)
		<-time.After(5 * time.Second)
		synctest.Wait()
		shown := shownBy(t, manager)
		accounts, configs, secrets := shown.Controllers[0], shown.Controllers[1], shown.Controllers[2]
		if accounts.Name != "accounts" || accounts.State != "waiting for kinds" || accounts.WaitsFor[0] != "ServiceAccount" || accounts.Level.String() != "Starting" || accounts.Next.Missing[0] != "ServiceAccount" {
			t.Errorf("a controller whose kind is missing is shown as %+v", accounts)
		}
		if secrets.Name != "secrets" || secrets.State != "standing by" || secrets.WaitsFor[0] != "Secret" {
			t.Errorf("a controller that stands by is shown as %+v", secrets)
		}
		if configs.State != "working" || configs.Level.String() != "OwnWritesVisible" || configs.Next.Level.String() != "Settled" || !strings.Contains(strings.Join(configs.Next.Missing, ", "), "configs") {
			t.Errorf("the controller is shown as %+v, next %+v", configs, configs.Next)
		}
		if len(configs.InFlight) != 1 || configs.InFlight[0].Key != "a/stuck" || configs.InFlight[0].Since.Before(begun) || time.Since(configs.InFlight[0].Since) < 4*time.Second {
			t.Errorf("the attempts in flight are %+v", configs.InFlight)
		}
		if configs.Queued != 1 || configs.Unfinished != 2 || configs.Terminal != 1 || configs.Failing != 0 || len(configs.Backoffs) != 2 {
			t.Errorf("the queue is shown as %+v", configs)
		}
		ended, failed := configs.Backoffs[0], configs.Backoffs[1]
		if ended.Key != "a/ends" || !ended.Terminal || ended.Due != nil || ended.Reason != "an error" {
			t.Errorf("the key that has ended is shown as %+v", ended)
		}
		if failed.Key != "a/fails" || failed.Failures != 1 || failed.Due == nil || failed.Due.Before(time.Now().Add(30*time.Second)) || failed.Due.After(time.Now().Add(2*time.Minute)) {
			t.Errorf("the key that backs off is shown as %+v", failed)
		}
		kinds := map[string]introspection.Kind{}
		for _, kind := range shown.Kinds {
			kinds[kind.Kind] = kind
		}
		if kind := kinds["ConfigMap"]; kind.Use != "watched" || kind.Watch != "watching" || kind.Objects != 4 || kind.Bytes == 0 || !kind.Counts || kind.LastEvent == nil || strings.Join(kind.Controllers, " ") != "configs" {
			t.Errorf("a kind is shown as %+v", kind)
		}
		if kind := kinds["Pod"]; kind.Use != "on demand" || kind.Watch != "" {
			t.Errorf("a kind on demand that nobody claims is shown as %+v", kind)
		}
		if kind := kinds["Service"]; kind.Use != "live" || strings.Join(kind.Controllers, " ") != "configs" {
			t.Errorf("a kind of Uses is shown as %+v", kind)
		}
		if kind := kinds["ServiceAccount"]; kind.Counts || kind.Level.String() != "Starting" {
			t.Errorf("a kind that is not served is shown as %+v", kind)
		}
		close(leave)
		<-time.After(10 * time.Minute)
		synctest.Wait()
		shown = shownBy(t, manager)
		if configs = shown.Controllers[1]; configs.Failing != 1 || configs.Backoffs[1].Failures < 3 || len(configs.InFlight) != 0 || configs.Level.String() != "Settled" || configs.Next.Level.String() != "Converged" {
			t.Errorf("later, the controller is shown as %+v", configs)
		}
		group.Stop()
		must(group.Wait())
	})
}

// shownBy returns what a manager answers, which must have no value of an object or message of an error.
func shownBy(t *testing.T, manager *Manager) (shown introspection.State) {
	t.Helper()
	recorder := httptest.NewRecorder()
	manager.introspect(recorder, httptest.NewRequestWithContext(t.Context(), "GET", "/debug/manager", nil))
	if err := json.Unmarshal(recorder.Body.Bytes(), &shown); err != nil || recorder.Code != 200 || strings.Contains(recorder.Body.String(), canary) {
		t.Fatalf("the answer is %d %s: %v", recorder.Code, recorder.Body, err)
	}
	return shown
}
