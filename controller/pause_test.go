package controller_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bellerophon-io/bellerophon/cache"
	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/operators"
	"github.com/bellerophon-io/bellerophon/sources/sourcestest"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

func TestAPausedObjectIsLeftAloneUntilTheAnnotationGoes(t *testing.T) {
	inLevelWorld(t, sourcestest.Options{}, controller.Options{}, func(w *levelWorld) {
		var reconciled []string
		paused := config("paused")
		paused.Annotations = map[string]string{"acme.io/paused": "true"}
		w.must(w.server.Create(paused))
		w.create("x")
		w.must(w.manager.Add("configs", func(_ context.Context, request operators.Request) (time.Duration, error) {
			reconciled = append(reconciled, request.Name)
			return 0, nil
		}, controller.For(&corev1.ConfigMap{}, controller.When(controller.LabelsChanged)), controller.PausedBy("acme.io/paused")))
		w.run()
		w.reach(cache.Converged, time.Second)
		w.must(w.server.Update(config("paused")))
		w.wait(time.Second)
		w.reach(cache.Converged, time.Second)
		if want := []string{"x", "paused"}; !slices.Equal(reconciled, want) {
			t.Errorf("the attempts are %v, want %v", reconciled, want)
		}
	})
	inLevelWorld(t, sourcestest.Options{}, controller.Options{}, func(w *levelWorld) {
		if err := w.manager.Add("configs", nothing, controller.For(&corev1.ConfigMap{}), controller.PausedBy("not a name")); err == nil || !strings.Contains(err.Error(), "PausedBy") {
			t.Errorf("the error is %v", err)
		}
	})
}

func TestAKindMayHaveNamespacesOfItsOwn(t *testing.T) {
	inLevelWorld(t, sourcestest.Options{}, controller.Options{Namespaces: []string{"b"}}, func(w *levelWorld) {
		w.create("x")
		w.must(w.manager.Add("configs", w.noting, controller.For(&corev1.ConfigMap{}, controller.Namespaces("a"))))
		if err := w.manager.Add("others", nothing, controller.For(&corev1.ConfigMap{})); err == nil || !strings.Contains(err.Error(), `Namespaces is "a" elsewhere and "b" here`) {
			t.Errorf("the error is %v", err)
		}
		w.run()
		w.reach(cache.Converged, time.Second)
		if w.count() != 1 {
			t.Errorf("there were %d attempts, want one", w.count())
		}
	})
}

func TestTheLoggerOfAReconcileNamesItAndAgreesWithTheManagers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, err := sourcestest.New(sourcestest.Options{Scheme: scheme.Scheme})
		if err != nil {
			t.Fatal(err)
		}
		if err := server.Create(config("x")); err != nil {
			t.Fatal(err)
		}
		var logged bytes.Buffer
		log := slog.New(slog.NewJSONHandler(&logged, &slog.HandlerOptions{Level: slog.LevelDebug}))
		m, err := controller.NewManager(server.Config(), scheme.Scheme, controller.Options{Logger: log})
		if err != nil {
			t.Fatal(err)
		}
		if err := m.Add("configs", func(ctx context.Context, _ operators.Request) (time.Duration, error) {
			controller.Logger(ctx).Info("mine")
			return 0, nil
		}, controller.For(&corev1.ConfigMap{})); err != nil {
			t.Fatal(err)
		}
		group := lifecycle.New(t.Context())
		group.Go("manager", m.Run)
		if err := m.Cache().Wait(t.Context(), cache.Settled); err != nil {
			t.Fatal(err)
		}
		group.Stop()
		if err := group.Wait(); err != nil {
			t.Fatal(err)
		}
		records := map[string]map[string]any{}
		for line := range strings.Lines(logged.String()) {
			record := map[string]any{}
			if err := json.Unmarshal([]byte(line), &record); err != nil {
				t.Fatal(err)
			}
			records[fmt.Sprint(record["msg"])] = record
		}
		mine, theirs := records["mine"], records["reconciled"]
		if mine["controller"] != "configs" || mine["namespace"] != "a" || mine["name"] != "x" || fmt.Sprint(mine["causes"]) != "[Listed ConfigMap a/x @2]" {
			t.Errorf("the record is %v", mine)
		}
		if id := mine["reconcileID"]; id == nil || id != theirs["reconcileID"] {
			t.Errorf("the ids differ: %v and %v", mine, theirs)
		}
	})
}

func TestQPSBoundsTheRequestsOfAllKinds(t *testing.T) {
	inLevelWorld(t, sourcestest.Options{}, controller.Options{QPS: 1, Burst: 2}, func(w *levelWorld) {
		w.must(w.manager.Add("configs", nothing, controller.For(&corev1.ConfigMap{}), controller.Uses(&corev1.Secret{})))
		started := time.Now()
		for i := range 12 {
			if i%2 == 0 {
				_, err := controller.Create(w.t.Context(), w.manager.Client(), config(fmt.Sprint("x", i)))
				w.must(err)
				continue
			}
			_, err := controller.Create(w.t.Context(), w.manager.Client(), secret(fmt.Sprint("x", i)))
			w.must(err)
		}
		if took := time.Since(started); took < 9*time.Second || took > 11*time.Second {
			t.Errorf("12 requests took %v, want about 10 s", took)
		}
	})
	for _, wrong := range []controller.Options{{QPS: -1}, {Burst: 3}, {QPS: 1, Burst: -1}} {
		if _, err := controller.NewManager(&rest.Config{}, scheme.Scheme, wrong); err == nil {
			t.Errorf("QPS %v and Burst %d are allowed", wrong.QPS, wrong.Burst)
		}
	}
}
