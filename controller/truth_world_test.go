package controller_test

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/cache"
	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/internal/localcluster"
	"github.com/bellerophon-io/bellerophon/operators"
	"github.com/bellerophon-io/bellerophon/sources/faultproxy"
	"github.com/bellerophon-io/bellerophon/streams"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

// truth is a manager on a real API server behind a proxy with faults, and a client past the proxy.
// Its controller keeps a Secret for each ConfigMap. The Secret holds the value of the ConfigMap and
// the number of Services that are mapped to it.
type truth struct {
	t          *testing.T
	cluster    *localcluster.Cluster
	proxy      *faultproxy.Proxy
	past       kubernetes.Interface // a client past the proxy
	namespaces []string
	random     *rand.Rand
	staleness  time.Duration
	bound      time.Duration // the cache must have every write that is older
	patience   time.Duration // how long the level may take to be true
	manager    *controller.Manager
	level      func() cache.Level // the level that is claimed
	broken     atomic.Bool        // the reconciler writes nothing
	tally      tally
	struck     map[string]int // how often each fault struck
	snapshot   string         // of etcd
	rose       chan time.Time // the last rise to Settled

	mu     sync.Mutex
	gate   chan struct{}                   // if not nil, reconciles wait until it is closed
	seen   map[types.NamespacedName]string // what the last reconcile of each object saw
	failed map[types.NamespacedName]int    // failures in a row
	writes map[string]time.Time            // when an object was last written, by kind and name
	all    time.Time                       // when a restore last wrote all objects
}

// tally counts what was checked.
type tally struct {
	rises, afterFaults int // rises to Settled or above
	standing           int // levels that stayed, and were checked after the bound
	fell               int // rises that ended before they could be checked
	failing            int // objects that were not reconciled, and do not count because they failed too often
	lies               int
}

func newTruth(t *testing.T, cluster *localcluster.Cluster) *truth {
	t.Helper()
	w := &truth{
		t: t, cluster: cluster, staleness: truthBound, bound: truthBound, patience: 3 * time.Minute, struck: map[string]int{}, rose: make(chan time.Time, 1),
		random: rand.New(rand.NewPCG(*risesSeed, 0)), seen: map[types.NamespacedName]string{}, failed: map[types.NamespacedName]int{}, writes: map[string]time.Time{},
	}
	config := cluster.AdminConfig()
	client, err := rest.HTTPClientFor(config)
	w.must(err)
	w.past, err = kubernetes.NewForConfigAndClient(config, client)
	w.must(err)
	w.proxy, err = faultproxy.New(config)
	w.must(err)
	t.Cleanup(func() {
		utilnet.CloseIdleConnectionsFor(client.Transport)
		w.must(w.proxy.Close())
	})
	// Only the test and the manager may write. The garbage collector could write at any time.
	w.must(cluster.Pause("kube-controller-manager"))
	for i := range 3 {
		made, err := w.past.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{
			ObjectMeta: metav1.ObjectMeta{GenerateName: "truth-" + strconv.Itoa(i) + "-"},
		}, metav1.CreateOptions{})
		w.must(err)
		w.namespaces = append(w.namespaces, made.Name)
	}
	return w
}

func (w *truth) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// start runs a manager until the test ends.
func (w *truth) start() {
	w.t.Helper()
	var err error
	w.manager, err = controller.NewManager(w.proxy.Config(), scheme.Scheme, controller.Options{
		Namespaces: w.namespaces, MaxStaleness: w.staleness, Timeout: 5 * time.Second,
		Backoff: operators.Backoff{Max: time.Second},
		Logger:  slog.New(slog.DiscardHandler), OnError: func(error) {}, OnResult: w.result,
	})
	w.must(err)
	w.must(w.manager.Add("truth", w.reconcile,
		controller.For(&corev1.ConfigMap{}), controller.Owns(&corev1.Secret{}),
		controller.Watches(&corev1.Service{}, func(object streams.Object) []types.NamespacedName { return mappedTo(object) })))
	w.level = w.manager.Cache().Level
	group := lifecycle.New(w.t.Context())
	group.Go("manager", w.manager.Run)
	group.Go("levels", func(ctx context.Context) error {
		last := cache.Starting
		return streams.ForEach(ctx, w.manager.Cache().Levels(), func(levels []cache.Level) {
			for _, level := range levels {
				if last < cache.Settled && level >= cache.Settled {
					select {
					case <-w.rose: // Only the latest rise counts.
					default:
					}
					w.rose <- time.Now()
				}
				last = level
			}
		}, nil)
	})
	w.t.Cleanup(func() {
		group.Stop()
		if err := group.Wait(); err != nil {
			w.t.Error(err)
		}
	})
}

// mappedTo returns the name of the ConfigMap to which a Service is mapped.
func mappedTo(object metav1.Object) []types.NamespacedName {
	return []types.NamespacedName{{Namespace: object.GetNamespace(), Name: object.GetLabels()["of"]}}
}

// contentOf returns the value that the Secret of a ConfigMap must have.
func contentOf(config *corev1.ConfigMap, services int) string {
	return fmt.Sprintf("%s with %d services", config.Data["value"], services)
}

func (w *truth) reconcile(ctx context.Context, request operators.Request) (time.Duration, error) {
	if gate := w.gated(); gate != nil {
		select {
		case <-gate:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
	name, client := request.NamespacedName, w.manager.Client()
	config, found := cached[*corev1.ConfigMap](client, name)
	secret, has := cached[*corev1.Secret](client, name)
	var services []*corev1.Service
	for _, service := range listed[*corev1.Service](client, controller.InNamespace(name.Namespace)) {
		if service.Labels["of"] == name.Name {
			services = append(services, service)
		}
	}
	w.saw(name, sightOf(config, secret, services))
	if !found || w.broken.Load() {
		return 0, nil
	}
	wanted := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: name.Namespace, Name: name.Name,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(config, corev1.SchemeGroupVersion.WithKind("ConfigMap"))},
		},
		Data: map[string][]byte{"value": []byte(contentOf(config, len(services)))},
	}
	var err error
	switch {
	case !has:
		w.wrote("Secret " + name.String())
		_, err = controller.Create(ctx, client, wanted)
	case string(secret.Data["value"]) != string(wanted.Data["value"]) || !metav1.IsControlledBy(secret, config):
		after := secret.DeepCopy()
		after.Data, after.OwnerReferences = wanted.Data, wanted.OwnerReferences
		w.wrote("Secret " + name.String())
		_, err = controller.Patch(ctx, client, after, controller.MergeFrom(secret))
	default:
		return 0, nil
	}
	w.wrote("Secret " + name.String()) // A write that failed may have been committed.
	return 0, err
}

func (w *truth) saw(name types.NamespacedName, sight string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen[name] = sight
}

func (w *truth) sights() map[types.NamespacedName]string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.seen)
}

// result counts the failures in a row of each object.
func (w *truth) result(result operators.Result) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if result.Err == nil {
		delete(w.failed, result.NamespacedName)
	} else {
		w.failed[result.NamespacedName] = result.Attempt
	}
}

// failing reports whether an object has failed so often that Settled does not wait for it.
func (w *truth) failing(name types.NamespacedName) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.failed[name] >= operators.FailingAfter
}

// wrote records that an object is written now.
func (w *truth) wrote(key string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.writes[key] = time.Now()
}

// written returns when an object was last written.
func (w *truth) written(key string) time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	if at := w.writes[key]; at.After(w.all) {
		return at
	}
	return w.all
}

func (w *truth) gated() chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.gate
}

// hold blocks all reconciles until the returned channel is closed.
func (w *truth) hold() chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.gate = make(chan struct{})
	return w.gate
}
