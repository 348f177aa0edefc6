package controller_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/cache"
	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/internal/localcluster/clustertest"
	"github.com/bellerophon-io/bellerophon/operators"
	"github.com/bellerophon-io/bellerophon/streams"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedv1 "k8s.io/client-go/kubernetes/typed/core/v1"
)

// roundTrip bounds the time of one round trip to the API server, on a machine that is busy with
// other tests.
const roundTrip = time.Second

// loopFloor makes the quiet period a second. So a write every 20 ms prevents Settled, even if the API
// server is slow at times.
const loopFloor = 100 * time.Millisecond

// synced is a manager on the real API server. Its controller copies the value "wanted" of each
// ConfigMap to "had".
type synced struct {
	t         *testing.T
	ctx       context.Context
	namespace string
	foreign   typedv1.ConfigMapInterface // another client
	manager   *controller.Manager
	addresses map[string]string // by the name of the server that listens
	seen      chan seen

	mu     sync.Mutex
	levels []reachedLevel
	result time.Time // when the last reconcile ended
}

// seen is an object that a reconcile has read from the cache.
type seen struct {
	name string
	at   time.Time
}

type reachedLevel struct {
	level cache.Level
	at    time.Time
}

func newSynced(t *testing.T) *synced {
	t.Helper()
	cluster := clustertest.Shared(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	s := &synced{t: t, ctx: ctx, namespace: clustertest.Namespace(t), addresses: map[string]string{}, seen: make(chan seen, 10_000)}
	config := cluster.AdminConfig()
	config.QPS = -1
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	s.foreign = client.CoreV1().ConfigMaps(s.namespace)
	s.manager, err = controller.NewManager(config, scheme.Scheme, controller.Options{
		Namespaces: []string{s.namespace}, Loop: cache.LoopOptions{Floor: loopFloor},
		MetricsAddress: "127.0.0.1:0", HealthAddress: "127.0.0.1:0",
		OnListen: func(server string, address net.Addr) { s.addresses[server] = "http://" + address.String() },
		OnResult: func(operators.Result) { s.mu.Lock(); s.result = time.Now(); s.mu.Unlock() },
		Logger:   slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn})),
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.manager.Add("wanted", s.reconcile, controller.For(&corev1.ConfigMap{}, controller.When(wants)), controller.IgnoreEchoes()); err != nil {
		t.Fatal(err)
	}
	return s
}

// wants reports whether the change may need a reconcile: objects with "idle" do not.
func wants(change streams.Change) bool {
	object, ok := change.New.(*corev1.ConfigMap)
	return !ok || object.Data["idle"] == ""
}

// run runs the manager and records its levels until the test ends.
func (s *synced) run() {
	group := lifecycle.New(s.ctx)
	group.Go("manager", s.manager.Run)
	group.Go("levels", func(ctx context.Context) error {
		return streams.ForEach(ctx, s.manager.Cache().Levels(), func(levels []cache.Level) {
			s.mu.Lock()
			defer s.mu.Unlock()
			for _, level := range levels {
				s.levels = append(s.levels, reachedLevel{level, time.Now()})
			}
		}, func(err error) { s.t.Error(err) })
	})
	s.t.Cleanup(func() {
		group.Stop()
		if err := group.Wait(); err != nil {
			s.t.Error(err)
		}
	})
}

func (s *synced) reconcile(ctx context.Context, request operators.Request) (time.Duration, error) {
	found, ok := cached[*corev1.ConfigMap](s.manager.Client(), request.NamespacedName)
	if !ok {
		return 0, nil
	}
	select {
	case s.seen <- seen{request.Name, time.Now()}:
	default: // The test reads fewer than the channel holds.
	}
	if found.Data["wanted"] == found.Data["had"] {
		return 0, nil
	}
	changed := found.DeepCopy()
	changed.Data["had"] = found.Data["wanted"]
	_, err := controller.Patch(ctx, s.manager.Client(), changed, controller.MergeFrom(found))
	return 0, err
}

func (s *synced) configMap(name, wanted string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name},
		Data:       map[string]string{"wanted": wanted},
	}
}

// create creates an object as another client.
func (s *synced) create(name, wanted string) *corev1.ConfigMap {
	s.t.Helper()
	made, err := s.foreign.Create(s.ctx, s.configMap(name, wanted), metav1.CreateOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	return made
}

// reach waits for a level.
func (s *synced) reach(level cache.Level) {
	s.t.Helper()
	if err := s.manager.Cache().Wait(s.ctx, level); err != nil {
		s.t.Fatal(err)
	}
}

// since returns the levels that were reached at a time or later.
func (s *synced) since(from time.Time) (levels []reachedLevel) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, reached := range s.levels {
		if !reached.at.Before(from) {
			levels = append(levels, reached)
		}
	}
	return levels
}

// holdsAll checks that the cache holds the objects, each at its version or a later one.
func (s *synced) holdsAll(when string, objects []*corev1.ConfigMap) {
	s.t.Helper()
	for _, object := range objects {
		held, found := cached[*corev1.ConfigMap](s.manager.Client(), types.NamespacedName{Namespace: s.namespace, Name: object.Name})
		if !found || streams.IsOlderVersion(held.ResourceVersion, object.ResourceVersion) {
			s.t.Errorf("%s the cache does not hold %s as of %s", when, object.Name, object.ResourceVersion)
		}
	}
}

// probe returns the answer of the readiness probe and the metric of the level.
func (s *synced) probe() (code int, ready, metric string) {
	s.t.Helper()
	code, ready, err := ask(s.ctx, s.addresses["health server"]+"/readyz")
	if err != nil {
		s.t.Fatal(err)
	}
	_, metrics, err := ask(s.ctx, s.addresses["metrics server"]+"/metrics")
	if err != nil {
		s.t.Fatal(err)
	}
	_, metric, _ = strings.Cut(metrics, "\nbellerophon_sync_level ")
	metric, _, _ = strings.Cut(metric, "\n")
	return code, strings.TrimSpace(ready), metric
}

func TestEachLevelOfSyncIsTrueWithinARoundTripOfARealServer(t *testing.T) {
	s := newSynced(t)
	var before []*corev1.ConfigMap
	for i := range 20 {
		before = append(before, s.create(fmt.Sprintf("before-%d", i), ""))
	}
	if level := s.manager.Cache().Level(); level != cache.Starting {
		t.Fatalf("before it runs the level is %v", level)
	}
	started := time.Now()
	s.run()
	for _, level := range []cache.Level{cache.Listed, cache.Current} {
		s.reach(level)
		if took := time.Since(started); took > roundTrip {
			t.Errorf("the level was %v after %v, want %v at most", level, took, roundTrip)
		}
		s.holdsAll("at level "+level.String(), before)
	}
	s.reach(cache.Settled)
	if code, ready, metric := s.probe(); code != http.StatusOK || ready != "ok: Converged" || metric != "5" {
		t.Errorf("when all is settled the probe says %d %q, the metric %q", code, ready, metric)
	}
	if list := s.since(started); !slices.IsSortedFunc(list, func(a, b reachedLevel) int { return int(a.level) - int(b.level) }) {
		t.Errorf("the levels up to Settled were %v, want them in order", list)
	}
	s.ownWrites()
	s.foreignWrites()
}

// ownWrites checks that a read after the answer to an own write sees the write, and that the watch
// reports it within a round trip.
func (s *synced) ownWrites() {
	s.t.Helper()
	var echoes []time.Duration
	for i := range 50 {
		made, err := controller.Create(s.ctx, s.manager.Client(), s.configMap(fmt.Sprintf("own-%d", i), ""))
		answered := time.Now()
		if err != nil {
			s.t.Fatal(err)
		}
		s.holdsAll("after an own write", []*corev1.ConfigMap{made})
		s.reach(cache.OwnWritesVisible)
		echoes = append(echoes, time.Since(answered))
		if reported := s.manager.Cache().Stores()[0].Len(); reported < i+1+20 {
			s.t.Errorf("with all own writes visible the watch has reported %d objects", reported)
		}
	}
	s.withinARoundTrip("the watch reports an own write", echoes)
}

// foreignWrites checks that the write of another client is in the cache within a round trip.
func (s *synced) foreignWrites() {
	s.t.Helper()
	var took []time.Duration
	for i := range 50 {
		made := s.create(fmt.Sprintf("foreign-%d", i), "")
		answered := time.Now()
		for name := ""; name != made.Name; {
			select {
			case found := <-s.seen:
				if name = found.name; name == made.Name {
					took = append(took, max(0, found.at.Sub(answered)))
				}
			case <-s.ctx.Done():
				s.t.Fatalf("%s was never reconciled", made.Name)
			}
		}
		s.holdsAll("after a foreign write", []*corev1.ConfigMap{made})
	}
	s.withinARoundTrip("a foreign write is in the cache", took)
}

func (s *synced) withinARoundTrip(what string, took []time.Duration) {
	s.t.Helper()
	slices.Sort(took)
	median, most := took[len(took)/2], took[len(took)-1]
	s.t.Logf("%s %v after the answer in the median, %v at most", what, median, most)
	if most > roundTrip {
		s.t.Errorf("%s %v after the answer, in the worst case; want %v at most", what, most, roundTrip)
	}
}

// The tolerance is one quiet period. The loop duration, and with it the quiet period itself, may take
// that long to be measured anew.
func TestNothingIsSettledWhileChurnGoesOnAndAllIsAQuietTimeAfterIt(t *testing.T) {
	s := newSynced(t)
	names := []string{"a", "b", "c", "d", "e"}
	for _, name := range names {
		s.create(name, "0")
	}
	s.run()
	levels := 0
	for round, field := range []string{"wanted", "wanted", "idle"} { // The last field causes no reconcile.
		s.reach(cache.Settled)
		started, lastWrite := s.churn(names, field, round+1)
		ended := time.Now()
		s.reach(cache.Settled)
		settled := time.Now()
		levels += s.checkChurn(started, ended)
		s.checkCalm(settled, lastWrite)
		if _, ready, metric := s.probe(); ready != "ok: Converged" || metric != "5" {
			t.Errorf("after the churn the probe says %q, the metric %q", ready, metric)
		}
		for _, name := range names {
			if object, _ := cached[*corev1.ConfigMap](s.manager.Client(), types.NamespacedName{Namespace: s.namespace, Name: name}); object.Data["had"] != object.Data["wanted"] {
				t.Errorf("when all is settled %s is %v", name, object.Data)
			}
		}
	}
	if levels == 0 {
		t.Error("no level changed during any churn, so that none was checked")
	}
}

// checkCalm checks the time from the last write or reconcile to Settled.
func (s *synced) checkCalm(settled, lastWrite time.Time) {
	s.t.Helper()
	loop := s.manager.Cache().Loop()
	quiet, want := loop.QuietPeriod(), 10*max(loop.Duration(), loopFloor)
	if quiet != want {
		s.t.Errorf("the quiet period is %v, want %v", quiet, want)
	}
	s.mu.Lock()
	last := s.result
	s.mu.Unlock()
	if last.Before(lastWrite) {
		last = lastWrite
	}
	s.t.Logf("the quiet period is %v; settled %v after the last write and %v after the last of writes and reconciles", quiet, settled.Sub(lastWrite), settled.Sub(last))
	if calm := settled.Sub(last); calm < quiet-time.Millisecond || calm > 2*quiet {
		s.t.Errorf("it settled %v after the last of writes and reconciles, want %v to %v", calm, quiet, 2*quiet)
	}
}

// churn changes a field of objects for two seconds, one every 20 ms. It returns the time at which
// the first change ended the calm, and the time at which the last one was sent.
func (s *synced) churn(names []string, field string, round int) (started, lastWrite time.Time) {
	s.t.Helper()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	answered := time.Now()
	for i := range 100 {
		<-ticker.C
		patch := fmt.Sprintf(`{"data":{%q:"%d-%d"}}`, field, round, i)
		lastWrite = time.Now()
		if _, err := s.foreign.Patch(s.ctx, names[i%len(names)], types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
			s.t.Fatal(err)
		}
		if gap := time.Since(answered); i > 0 && gap > 10*loopFloor/2 {
			s.t.Fatalf("the API server took %v for a write: this is no churn", gap)
		}
		answered = time.Now()
		if i == 0 {
			started = s.stirred()
		}
		if level := s.manager.Cache().Level(); level == cache.Settled {
			s.t.Errorf("the level is %v after write %d", level, i)
		}
	}
	_, ready, metric := s.probe()
	if strings.Contains(ready, "Settled") || metric == "4" {
		s.t.Errorf("after the last write the probe says %q, the metric %q", ready, metric)
	}
	return started, lastWrite
}

// stirred waits until the level is below Settled, and returns the time of that.
func (s *synced) stirred() time.Time {
	s.t.Helper()
	var at time.Time
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	_ = streams.ForEach(ctx, s.manager.Cache().Levels(), func(levels []cache.Level) {
		if at.IsZero() && levels[len(levels)-1] < cache.Settled {
			at = time.Now()
			cancel()
		}
	}, func(err error) { s.t.Error(err) })
	if at.IsZero() {
		s.t.Fatal("the first write does not end the calm")
	}
	return at
}

// checkChurn checks that no level during a churn was Settled, and returns the number of levels.
func (s *synced) checkChurn(started, ended time.Time) int {
	s.t.Helper()
	during := 0
	for _, reached := range s.since(started) {
		if !reached.at.Before(ended) {
			continue
		}
		during++
		if reached.level == cache.Settled {
			s.t.Errorf("%v after the churn began the level was %v, %v before its last write", reached.at.Sub(started), reached.level, ended.Sub(reached.at))
		}
	}
	return during
}
