package compat_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/cache"
	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/controller/compat"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/internal/localcluster/clustertest"
	"github.com/bellerophon-io/bellerophon/operators"
	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

func TestMain(m *testing.M) {
	log.SetLogger(logr.Discard())
	utilruntime.ErrorHandlers = nil // They sleep, and count errors of all tests.
	clustertest.Main(m)
}

// colorOf is a field of a ConfigMap that is indexed.
var colorOf = cache.FieldIndexer("data.color", func(config *corev1.ConfigMap) string { return config.Data["color"] })

// desk has a client of each runtime, on one API server.
type desk struct {
	t         *testing.T
	namespace string
	manager   *controller.Manager
	ours      client.Client // over a running manager that watches ConfigMaps
	theirs    client.Client // without a cache

	mu   sync.Mutex
	gets []string // the paths that the manager's client has read

	refuses atomic.Pointer[metav1.Status] // what deletions are answered with; nil to send them
}

func newDesk(t *testing.T, options ...controller.Option) *desk {
	t.Helper()
	d := &desk{t: t, namespace: clustertest.Namespace(t)}
	config := clustertest.Shared(t).AdminConfig()
	var err error
	d.theirs, err = client.New(config, client.Options{Scheme: scheme.Scheme})
	d.must(err)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return spy{d, next} })
	d.manager, err = controller.NewManager(config, scheme.Scheme, controller.Options{Logger: slog.New(slog.DiscardHandler), UserAgent: "desk"})
	d.must(err)
	d.must(d.manager.Add("configs", idle,
		append(options, controller.For(&corev1.ConfigMap{}, controller.Indexed(colorOf)))...))
	d.ours, err = compat.Client(d.manager.Client())
	d.must(err)
	d.run(d.manager)
	return d
}

// idle is a reconciler that does nothing.
func idle(context.Context, operators.Request) (time.Duration, error) { return 0, nil }

// run runs a manager until the end of the test.
func (d *desk) run(manager *controller.Manager) {
	group := lifecycle.New(d.t.Context())
	group.Go("manager", manager.Run)
	d.t.Cleanup(func() {
		group.Stop()
		d.must(group.Wait())
	})
	d.must(manager.Cache().Wait(d.t.Context(), cache.Current))
}

func (d *desk) must(err error) {
	d.t.Helper()
	if err != nil {
		d.t.Fatal(err)
	}
}

// spy is a transport that records what a desk reads.
type spy struct {
	desk *desk
	next http.RoundTripper
}

func (r spy) RoundTrip(request *http.Request) (*http.Response, error) {
	path := strings.Split(request.URL.Path, "/")
	if request.Method == http.MethodGet && slices.Contains(path, r.desk.namespace) {
		r.desk.mu.Lock()
		r.desk.gets = append(r.desk.gets, path[len(path)-1])
		r.desk.mu.Unlock()
	}
	if status := r.desk.refuses.Load(); status != nil && request.Method == http.MethodDelete {
		answer := httptest.NewRecorder()
		answer.Header().Set("Content-Type", "application/json")
		answer.WriteHeader(int(status.Code))
		if err := json.NewEncoder(answer).Encode(status); err != nil {
			return nil, err
		}
		return answer.Result(), nil
	}
	return r.next.RoundTrip(request)
}

// read returns the last parts of the paths that were read in the namespace since the last call.
func (d *desk) read() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	read := strings.Join(d.gets, " ")
	d.gets = nil
	return read
}

func (d *desk) name(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: d.namespace, Name: name}
}

// config returns a ConfigMap with labels that are given as names and values.
func (d *desk) config(name, color string, labelled ...string) *corev1.ConfigMap {
	made := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: d.namespace, Name: name}, Data: map[string]string{"color": color}}
	for i := 0; i < len(labelled); i += 2 {
		metav1.SetMetaDataLabel(&made.ObjectMeta, labelled[i], labelled[i+1])
	}
	return made
}
