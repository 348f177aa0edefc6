package controller_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/cache"
	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/controller/shards"
	"github.com/bellerophon-io/bellerophon/operators"
	"github.com/bellerophon-io/bellerophon/sources/sourcestest"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
)

func TestReplicasShareObjectsAndTheirChildren(t *testing.T) {
	inShareWorld(t, func(w *shareWorld) {
		w.create(300)
		w.must(w.server.Create(secret("nobodys")))
		first := w.replica(nil)
		w.wait(3 * time.Second)
		if configs, secrets := first.held(); configs != 300 || secrets != 301 {
			t.Fatalf("the only replica holds %d config maps and %d secrets", configs, secrets)
		}
		w.isTrue("with one replica")
		second, third := w.replica(nil), w.replica(nil)
		w.wait(5 * time.Second)
		w.isTrue("with three replicas")
		total := 0
		for _, each := range []*shareReplica{first, second, third} {
			configs, secrets := each.held()
			if total += configs; configs < 60 || configs > 150 || secrets != configs+1 {
				t.Errorf("%s holds %d config maps and %d secrets; each is to hold about 100, and the secret without an owner", each.name, configs, secrets)
			}
			if level := each.manager.Cache().Level(); level != cache.Converged {
				t.Errorf("%s is %v, and waits for %v", each.name, level, each.manager.Cache().Pending(cache.Converged))
			}
		}
		if total != 300 {
			t.Errorf("together they hold %d config maps", total)
		}
		changed := config("x007")
		changed.Data = map[string]string{"changed": "yes"}
		w.must(w.server.Update(changed))
		w.must(w.server.Create(config("new")))
		w.wait(time.Second)
		w.isTrue("after a change")
	})
}

func TestTheReplicasThatRemainTakeOverWithinALease(t *testing.T) {
	inShareWorld(t, func(w *shareWorld) {
		w.create(100)
		first, second := w.replica(nil), w.replica(nil)
		w.wait(5 * time.Second)
		configs, _ := second.held()
		first.kill()
		changed := config(first.names()[0])
		changed.Data = map[string]string{"changed": "yes"}
		w.must(w.server.Update(changed))
		w.wait(lease - 3*time.Second)
		if held, _ := second.held(); held != configs {
			t.Errorf("before the Lease of the dead one has expired, the other one holds %d config maps, want %d", held, configs)
		}
		w.wait(4 * time.Second)
		w.isTrue("a second after the Lease has expired")
		third := w.replica(nil)
		w.wait(3 * time.Second)
		w.isTrue("after a third one has joined")
		third.group.Stop()
		w.wait(time.Second)
		w.isTrue("a second after a replica has left")
	})
}

// Objects that a replica has lost and gets again are neither stale nor missing, although no client has changed
// them.
func TestAShareMayComeAndGo(t *testing.T) {
	inShareWorld(t, func(w *shareWorld) {
		w.create(60)
		first := w.replica(nil)
		for round := range 4 {
			w.wait(3 * time.Second)
			other := w.replica(nil)
			w.wait(3 * time.Second)
			w.isTrue(fmt.Sprint("shared, in round ", round))
			if round%2 == 0 {
				w.must(w.server.Delete(config(fmt.Sprintf("x%03d", round))))
			}
			other.group.Stop()
			w.wait(3 * time.Second)
			w.isTrue(fmt.Sprint("alone, in round ", round))
		}
		if configs, secrets := first.held(); configs != 58 || secrets != 60 {
			t.Errorf("in the end it holds %d config maps and %d secrets", configs, secrets)
		}
	})
}

func TestTheLevelFallsWhileAReplicaTakesOver(t *testing.T) {
	inShareWorld(t, func(w *shareWorld) {
		w.create(100)
		first, second := w.replica(nil), w.replica(nil)
		w.wait(5 * time.Second)
		if level := first.manager.Cache().Level(); level < cache.Settled {
			t.Fatalf("before, the level is %v", level)
		}
		w.must(w.server.Inject(sourcestest.Fault{Verb: "list", Resource: "configmaps", Action: sourcestest.Slow, For: 5 * time.Second}))
		second.group.Stop()
		w.wait(2 * time.Second)
		if level := first.manager.Cache().Level(); level >= cache.Current {
			t.Errorf("while the objects of the other one are read, the level is %v", level)
		}
		if held := first.manager.Cache().Pending(cache.Settled); !strings.Contains(strings.Join(held, " "), "ConfigMap") {
			t.Errorf("it waits for %v", held)
		}
		w.wait(5 * time.Second)
		w.isTrue("when they are read")
		if level := first.manager.Cache().Level(); level < cache.Settled {
			t.Errorf("when they are read, the level is %v", level)
		}
	})
}

// An object that fails for good belongs to the replica that has its slot. Otherwise the other one would never
// be Converged again.
func TestAnObjectThatFailsForGoodIsLetGoWithItsSlot(t *testing.T) {
	inShareWorld(t, func(w *shareWorld) {
		w.create(12)
		fails := func(context.Context, operators.Request) (time.Duration, error) {
			return 0, operators.Terminal(errors.New("it never works"))
		}
		first := w.replica(nil)
		w.must(first.manager.Add("failing", fails, controller.For(&corev1.ConfigMap{})))
		w.wait(5 * time.Second)
		if pending := first.manager.Cache().Pending(cache.Converged); len(pending) != 10 { // It names ten.
			t.Errorf("alone, it waits for %v, want ten objects", pending)
		}
		second := w.replica(nil)
		w.must(second.manager.Add("failing", nothing, controller.For(&corev1.ConfigMap{})))
		w.wait(10 * time.Second)
		configs, _ := first.held()
		if pending := first.manager.Cache().Pending(cache.Converged); configs == 12 || len(pending) != configs {
			t.Errorf("it holds %d config maps and waits for %v", configs, pending)
		}
	})
}

func TestWhatAReplicaGivesUpIsReleasedOnce(t *testing.T) {
	inShareWorld(t, func(w *shareWorld) {
		w.create(60)
		w.takes = time.Second
		var first *shareReplica
		calls := 0
		first = w.replica(nil, controller.OnRelease(func(keeps func(types.NamespacedName) bool) {
			calls++
			held := 0
			for i := range 60 {
				name := fmt.Sprintf("x%03d", i)
				if keeps(types.NamespacedName{Namespace: "default", Name: name}) {
					held++
					continue
				}
				w.mu.Lock()
				if w.inside[name] == first {
					t.Errorf("%s is released while it is reconciled", name)
				}
				w.mu.Unlock()
			}
			if held == 0 || held == 60 {
				t.Errorf("it keeps %d of 60 objects", held)
			}
		}))
		w.wait(20 * time.Second)
		if calls != 0 {
			t.Errorf("alone, it has released objects %d times", calls)
		}
		second := w.replica(nil)
		w.wait(20 * time.Second)
		if calls == 0 || calls > shards.Slots {
			t.Errorf("it has released objects %d times", calls)
		}
		calls = 0
		second.group.Stop()
		w.wait(20 * time.Second)
		if configs, _ := first.held(); calls != 0 || configs != 60 {
			t.Errorf("it has released objects %d times, and holds %d of 60", calls, configs)
		}
	})
}

func TestAControllerMayBeUnsharded(t *testing.T) {
	inShareWorld(t, func(w *shareWorld) {
		w.create(30)
		first, second := w.replica(nil, controller.Unsharded()), w.replica(nil, controller.Unsharded())
		w.wait(5 * time.Second)
		w.twice = 0 // Both reconcile each object.
		for _, each := range []*shareReplica{first, second} {
			if configs, _ := each.held(); configs != 30 || len(each.names()) != 30 {
				t.Errorf("%s holds %d config maps and has reconciled %d", each.name, configs, len(each.names()))
			}
		}
	})
}

func TestAControllerJoinsAShare(t *testing.T) {
	inShareWorld(t, func(w *shareWorld) {
		w.create(90)
		for i := range 3 {
			w.must(w.server.Create(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: fmt.Sprint("s", i)}}))
		}
		first, second := w.replica(nil), w.replica(nil)
		w.wait(5 * time.Second)
		served := map[string]string{} // the replica by the service
		for _, each := range []*shareReplica{first, second} {
			w.must(each.manager.Add("services", func(_ context.Context, request operators.Request) (time.Duration, error) {
				w.mu.Lock()
				defer w.mu.Unlock()
				if by := served[request.Name]; by != "" && by != each.name {
					t.Errorf("%s was reconciled by %s and by %s", request.Name, by, each.name)
				}
				served[request.Name] = each.name
				return 0, nil
			}, controller.For(&corev1.Service{})))
		}
		w.wait(3 * time.Second)
		if len(served) != 3 {
			t.Errorf("the services %v were reconciled, want 3", served)
		}
		w.must(first.manager.Add("all", nothing, controller.For(&corev1.ConfigMap{}), controller.Unsharded()))
		w.wait(3 * time.Second)
		if configs, _ := first.held(); configs != 90 {
			t.Errorf("with a controller that is not sharded, the cache has %d config maps", configs)
		}
		w.must(first.manager.Remove(w.t.Context(), "all"))
		changed := config("x001")
		changed.Data = map[string]string{"changed": "yes"}
		w.must(w.server.Update(changed))
		w.wait(time.Second)
		w.isTrue("without it")
	})
}

func TestTheMetricsOfAShare(t *testing.T) {
	inShareWorld(t, func(w *shareWorld) {
		w.create(50)
		registry := prometheus.NewRegistry()
		first, second := w.replica(func(o *controller.Options) { o.Registry = registry }), w.replica(nil)
		w.wait(5 * time.Second)
		configs, _ := first.held()
		page := scraped(t, registry)
		counts, _ := second.held()
		for _, want := range []string{
			"bellerophon_shard_members 2",
			fmt.Sprintf("bellerophon_shard_keys %d", configs),
			`bellerophon_shard_handovers_total{direction="lost"} 0`,
			`bellerophon_shard_filter{by="door",kind="ConfigMap"} 1`,
			`bellerophon_shard_filter{by="server",kind="ConfigMap"} 0`,
		} {
			if !strings.Contains(page, want+"\n") {
				t.Errorf("the metrics lack %s", want)
			}
		}
		if configs+counts != 50 {
			t.Errorf("the replicas hold %d and %d config maps", configs, counts)
		}
	})
}

// Random joins, ends and kills, with changes meanwhile: no object is reconciled by two replicas at once, and in
// the end each is reconciled as it is.
func TestChurnOfReplicasLosesNothing(t *testing.T) {
	for seed := range 20 {
		random := rand.New(rand.NewPCG(uint64(seed), 0))
		inShareWorld(t, func(w *shareWorld) {
			w.takes = 100 * time.Millisecond
			w.create(40)
			w.replica(nil)
			for range 10 {
				w.wait(time.Duration(random.IntN(6000)) * time.Millisecond)
				var living []*shareReplica
				for _, each := range w.replicas {
					if !each.dead && each.group.Context().Err() == nil {
						living = append(living, each)
					}
				}
				switch action := random.IntN(6); {
				case len(living) < 2 || action < 2 && len(living) < 4:
					w.replica(nil)
				case action == 2:
					living[random.IntN(len(living))].kill()
				case action == 3:
					living[random.IntN(len(living))].group.Stop()
				case action == 4:
					w.server.Break()
				}
				for range 3 {
					name := fmt.Sprintf("x%03d", random.IntN(40))
					changed := config(name)
					changed.Data = map[string]string{"changed": fmt.Sprint(time.Now().UnixNano())}
					w.must(w.server.Update(changed))
				}
			}
			w.wait(2 * lease)
			w.isTrue(fmt.Sprintf("in the end of schedule %d", seed))
		})
	}
}

func TestOptionsOfSharesAreChecked(t *testing.T) {
	server, err := sourcestest.New(sourcestest.Options{Scheme: scheme.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	_, err = controller.NewManager(server.Config(), scheme.Scheme, controller.Options{Shards: &shards.Options{Group: "test"}})
	if err == nil || !strings.Contains(err.Error(), "Namespace is") {
		t.Errorf("the error is %v", err)
	}
}

// scraped returns the metrics of a registry, a line for each series.
func scraped(t *testing.T, registry *prometheus.Registry) string {
	t.Helper()
	recorder := httptest.NewRecorder()
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	return recorder.Body.String()
}
