package controller_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/cache"
	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/operators"
	"github.com/bellerophon-io/bellerophon/sources/sourcestest"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
)

// The server refuses a kind that it does not serve, or that the client may not list.
func TestAKindThatTheServerRefusesHoldsUpOnlyTheControllerThatNeedsIt(t *testing.T) {
	for name, refuse := range map[string]sourcestest.Fault{
		"missing":   {Action: sourcestest.Refuse, Resource: "secrets", Code: http.StatusNotFound, Times: sourcestest.Always},
		"forbidden": {Action: sourcestest.Refuse, Resource: "secrets", Code: http.StatusForbidden, Times: sourcestest.Always},
	} {
		t.Run(name, func(t *testing.T) {
			inLevelWorld(t, sourcestest.Options{Script: []sourcestest.Fault{refuse}}, controller.Options{}, func(w *levelWorld) {
				w.create("x")
				w.must(w.server.Create(secret("x")))
				w.must(w.manager.Add("configs", w.noting, controller.For(&corev1.ConfigMap{})))
				both := &levelWorld{manager: w.manager, read: map[string]string{}}
				w.must(w.manager.Add("both", both.noting, controller.For(&corev1.ConfigMap{}), controller.Owns(&corev1.Secret{})))
				w.run()
				w.reach(cache.Settled, time.Second)
				w.isTrue("beside a kind that is refused")
				w.wait(time.Hour)
				if both.count() != 0 {
					t.Error("a controller reconciled without one of its kinds")
				}
				if uncounted := w.manager.Cache().NotCounted(); len(uncounted) != 1 || uncounted[0] != "Secret" {
					t.Errorf("not counted are %q", uncounted)
				}
				w.server.Heal()
				w.wait(time.Minute)
				w.reach(cache.Converged, time.Minute)
				if both.count() != 1 || len(w.manager.Cache().NotCounted()) != 0 {
					t.Errorf("when it is served there were %d attempts, and not counted are %q", both.count(), w.manager.Cache().NotCounted())
				}
			})
		})
	}
}

func TestReadyzStaysWellWhenAControllerOfAMissingKindIsAdded(t *testing.T) {
	server, err := sourcestest.New(sourcestest.Options{Scheme: scheme.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Uninstall(secret("")); err != nil {
		t.Fatal(err)
	}
	address := make(chan string, 1)
	refused := make(chan error, 100)
	m, err := controller.NewManager(server.Config(), scheme.Scheme, controller.Options{
		HealthAddress: "127.0.0.1:0", Logger: slog.New(slog.DiscardHandler),
		OnListen: func(_ string, listening net.Addr) { address <- listening.String() },
		OnError:  func(err error) { refused <- err },
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Add("configs", nothing, controller.For(&corev1.ConfigMap{})); err != nil {
		t.Fatal(err)
	}
	group := lifecycle.New(t.Context())
	group.Go("manager", m.Run)
	if err := m.Cache().Wait(t.Context(), cache.Settled); err != nil {
		t.Fatal(err)
	}
	if err := m.Add("secrets", nothing, controller.For(&corev1.Secret{})); err != nil {
		t.Fatal(err)
	}
	if err := <-refused; !strings.Contains(err.Error(), "secrets") {
		t.Errorf("refused is %v", err)
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+<-address+"/readyz", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"ok: ", "not counted: Secret\n", "controller secrets waits for a kind that the server refuses"} {
		if answer.StatusCode != http.StatusOK || !strings.Contains(string(body), want) {
			t.Errorf("/readyz answers %d %q, want %q in it", answer.StatusCode, body, want)
		}
	}
	http.DefaultClient.CloseIdleConnections()
	group.Stop()
	if err := group.Wait(); err != nil {
		t.Error(err)
	}
}

// Objects of metrics.k8s.io have no resource versions.
func TestObjectsOfAServerThatGivesThemNoVersionsAreFollowed(t *testing.T) {
	inLevelWorld(t, sourcestest.Options{NoResourceVersions: []schema.GroupVersionKind{corev1.SchemeGroupVersion.WithKind("ConfigMap")}}, controller.Options{}, func(w *levelWorld) {
		read := map[string]string{}
		w.must(w.manager.Add("configs", func(_ context.Context, request operators.Request) (time.Duration, error) {
			object, _ := cached[*corev1.ConfigMap](w.manager.Client(), request.NamespacedName)
			read[request.Name] = object.Data["changed"]
			return 0, nil
		}, controller.For(&corev1.ConfigMap{})))
		w.create("x")
		w.run()
		w.reach(cache.Settled, time.Minute)
		for range 3 {
			w.change("x")
			want := fmt.Sprint(time.Now().UnixNano())
			w.wait(2 * bound)
			if read["x"] != want {
				t.Errorf("read is %q, want %q", read["x"], want)
			}
		}
	})
}

// The object is fixed while its key waits minutes for the next attempt.
func TestAnObjectThatIsMendedWhileItsKeyBacksOffIsReconciledAtOnce(t *testing.T) {
	inLevelWorld(t, sourcestest.Options{}, controller.Options{}, func(w *levelWorld) {
		var mended atomic.Bool
		w.create("bad")
		w.must(w.manager.Add("configs", w.failing(&mended), controller.For(&corev1.ConfigMap{})))
		w.run()
		w.wait(20 * time.Minute) // It has failed a dozen times.
		mended.Store(true)
		w.change("bad")
		w.wait(time.Second)
		if w.count() != 1 {
			t.Errorf("a second after it was mended there were %d attempts that succeed", w.count())
		}
		w.reach(cache.Converged, time.Minute)
	})
}
