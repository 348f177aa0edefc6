package controller_test

import (
	"context"
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
	"github.com/bellerophon-io/bellerophon/streams"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/scheme"
)

// secrets is a controller of secrets that stands by, and records what it reconciles.
type secrets struct{ reconciled []string }

func (s *secrets) reconcile(_ context.Context, request operators.Request) (time.Duration, error) {
	s.reconciled = append(s.reconciled, request.Name)
	return 0, nil
}

func (s *secrets) addTo(w *levelWorld) {
	w.t.Helper()
	w.must(w.manager.Add("secrets", s.reconcile, controller.For(&corev1.Secret{}), controller.IfServed()))
}

// waits returns the metric of the kinds that controllers wait for.
func (w *levelWorld) waits(registry *prometheus.Registry) (kinds []string) {
	w.t.Helper()
	families, err := registry.Gather()
	w.must(err)
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			if family.GetName() == "bellerophon_controller_waits" && metric.GetGauge().GetValue() > 0 {
				kinds = append(kinds, fmt.Sprint(metric.GetLabel()[0].GetValue(), " ", metric.GetGauge().GetValue()))
			}
		}
	}
	return kinds
}

func TestAControllerWithIfServedComesAndGoesWithItsKind(t *testing.T) {
	registry := prometheus.NewRegistry()
	inLevelWorld(t, sourcestest.Options{}, controller.Options{Registry: registry}, func(w *levelWorld) {
		w.must(w.server.Uninstall(secret("")))
		var of secrets
		of.addTo(w)
		w.create("x")
		w.begin()
		w.reach(cache.Converged, time.Second) // The controller that stands by does not count.
		for round := range 3 {
			if waits := w.waits(registry); !slices.Equal(waits, []string{"secrets 1"}) {
				t.Errorf("in round %d, the controllers wait for %q", round, waits)
			}
			if failed := w.failed; len(failed) > 0 && round == 0 {
				t.Errorf("standing by is reported as a failure: %v", failed)
			}
			w.must(w.server.Install(secret("")))
			w.must(w.server.Create(secret(fmt.Sprint("s", round))))
			w.wait(11 * time.Second)
			w.reach(cache.Converged, time.Second)
			if want := fmt.Sprint("s", round); len(of.reconciled) == 0 || of.reconciled[len(of.reconciled)-1] != want {
				t.Fatalf("the attempts are %v, want one for %s", of.reconciled, want)
			}
			if waits := w.waits(registry); len(waits) > 0 {
				t.Errorf("the controllers wait for %q while all is served", waits)
			}
			w.must(w.server.Uninstall(secret("")))
			w.wait(11 * time.Second)
			w.reach(cache.Converged, time.Second)
			if held := w.manager.Cache().Stores(); len(held) != 1 {
				t.Errorf("the cache has %d kinds, want one", len(held))
			}
		}
		w.change("x")
		w.wait(time.Second)
		w.reach(cache.Converged, time.Second)
	})
}

func TestAControllerThatStandsByCanBeRemoved(t *testing.T) {
	for name, test := range map[string]struct{ running, served bool }{
		"before the manager runs": {}, "while it waits": {running: true}, "while it works": {running: true, served: true},
	} {
		t.Run(name, func(t *testing.T) {
			inLevelWorld(t, sourcestest.Options{}, controller.Options{}, func(w *levelWorld) {
				if !test.served {
					w.must(w.server.Uninstall(secret("")))
				}
				var of secrets
				of.addTo(w)
				if err := w.manager.Add("secrets", nothing, controller.For(&corev1.Pod{})); err == nil || !strings.Contains(err.Error(), "the name is taken") {
					t.Errorf("a second controller of the name: %v", err)
				}
				if test.running {
					w.begin()
					w.wait(11 * time.Second)
				}
				w.must(w.manager.Remove(w.t.Context(), "secrets"))
				w.must(w.server.Install(secret("")))
				w.must(w.server.Create(secret("late")))
				w.wait(20 * time.Second)
				if len(of.reconciled) > 0 {
					t.Errorf("after its removal it reconciled %v", of.reconciled)
				}
				of.addTo(w)
			})
		})
	}
}

func TestADiscoveryThatFailsStopsNoController(t *testing.T) {
	inLevelWorld(t, sourcestest.Options{}, controller.Options{}, func(w *levelWorld) {
		var of secrets
		of.addTo(w)
		w.begin()
		w.reach(cache.Converged, time.Second)
		w.must(w.server.Inject(sourcestest.Fault{Action: sourcestest.Disconnect, Resource: "secrets", Times: 5}))
		w.server.Break()
		w.wait(30 * time.Second)
		w.must(w.server.Create(secret("s")))
		w.wait(time.Second)
		w.reach(cache.Converged, time.Second)
		if !slices.Equal(of.reconciled, []string{"s"}) {
			t.Errorf("the attempts are %v", of.reconciled)
		}
	})
}

// Another controller has taken the kind in a form of its own. The start is tried again, with a pause.
func TestAControllerThatCannotStartWhenItIsServedTriesAgain(t *testing.T) {
	inLevelWorld(t, sourcestest.Options{}, controller.Options{}, func(w *levelWorld) {
		var of secrets
		of.addTo(w)
		w.must(w.manager.Add("others", nothing, controller.For(&corev1.Secret{}, controller.Transform(func(streams.Object) {}))))
		w.must(w.server.Create(secret("s")))
		w.begin()
		w.wait(30 * time.Second)
		if len(of.reconciled) > 0 {
			t.Errorf("it reconciled %v beside a controller that keeps the kind in another form", of.reconciled)
		}
		w.must(w.manager.Remove(w.t.Context(), "others"))
		w.wait(11 * time.Second)
		w.reach(cache.Converged, time.Second)
		if !slices.Equal(of.reconciled, []string{"s"}) {
			t.Errorf("the attempts are %v", of.reconciled)
		}
	})
}

func TestAControllerWithIfServedLogsThatItWaits(t *testing.T) {
	var written strings.Builder
	logger := slog.New(slog.NewTextHandler(&written, nil))
	synctest.Test(t, func(t *testing.T) {
		server, err := sourcestest.New(sourcestest.Options{Scheme: scheme.Scheme})
		if err != nil {
			t.Fatal(err)
		}
		if err := server.Uninstall(secret("")); err != nil {
			t.Fatal(err)
		}
		manager, err := controller.NewManager(server.Config(), scheme.Scheme, controller.Options{Logger: logger})
		if err != nil {
			t.Fatal(err)
		}
		var of secrets
		if err := manager.Add("secrets", of.reconcile, controller.For(&corev1.Secret{}), controller.IfServed()); err != nil {
			t.Fatal(err)
		}
		group := lifecycle.New(t.Context())
		group.Go("manager", manager.Run)
		<-time.After(time.Hour)
		if err := server.Install(secret("")); err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Minute)
		group.Stop()
		if err := group.Wait(); err != nil {
			t.Error(err)
		}
	})
	for _, want := range []string{"waits until the API server serves its kinds\" controller=secrets kinds=Secret", "serves the kinds of the controller, which starts\" controller=secrets"} {
		if strings.Count(written.String(), want) != 1 {
			t.Errorf("the log does not have %q once:\n%s", want, written.String())
		}
	}
}
