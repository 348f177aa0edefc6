package controller_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"path"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/controller/shards"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/operators"
	"github.com/bellerophon-io/bellerophon/sources/sourcestest"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
)

// lease is the duration of a Lease by default.
const lease = shards.DefaultLeaseDuration

// shareWorld is a group of managers that share config maps, each with a secret, over a fake API server and in
// virtual time.
type shareWorld struct {
	t      *testing.T
	server *sourcestest.Server

	mu       sync.Mutex
	replicas []*shareReplica
	inside   map[string]*shareReplica // who reconciles an object now
	read     map[string]string        // by name: the version that was reconciled last
	takes    time.Duration            // by a reconcile
	twice    int                      // reconciles of an object that another replica reconciles
}

// shareReplica is one of the managers.
type shareReplica struct {
	*shareWorld
	name    string
	manager *controller.Manager
	group   *lifecycle.Group
	wire    *shareWire
	dead    bool
	done    map[string]int // reconciles by name
}

// shareWire is the network of a replica. When it is cut, requests fail and streams end.
type shareWire struct {
	next http.RoundTripper
	mu   sync.Mutex
	dead context.Context
	cut  context.CancelFunc
	sent map[string]int // requests by method and path

	limits []string // of the API server's time for each creation of a secret
}

func newShareWire(next http.RoundTripper) *shareWire {
	made := &shareWire{next: next, sent: map[string]int{}}
	made.heal()
	return made
}

func (w *shareWire) heal() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.dead, w.cut = context.WithCancel(context.Background())
}

func (w *shareWire) RoundTrip(request *http.Request) (*http.Response, error) {
	w.mu.Lock()
	dead := w.dead
	w.sent[request.Method+" "+request.URL.Path]++
	if request.Method == http.MethodPost && path.Base(request.URL.Path) == "secrets" {
		w.limits = append(w.limits, request.URL.Query().Get("timeout"))
	}
	w.mu.Unlock()
	if dead.Err() != nil {
		return nil, io.ErrUnexpectedEOF
	}
	ctx, cancel := context.WithCancel(request.Context())
	context.AfterFunc(dead, cancel)
	return w.next.RoundTrip(request.WithContext(ctx))
}

func inShareWorld(t *testing.T, test func(w *shareWorld)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		server, err := sourcestest.New(sourcestest.Options{Scheme: scheme.Scheme})
		if err != nil {
			t.Fatal(err)
		}
		w := &shareWorld{t: t, server: server, inside: map[string]*shareReplica{}, read: map[string]string{}}
		test(w)
		for _, replica := range w.replicas {
			replica.group.Stop()
		}
		for _, replica := range w.replicas {
			if err := replica.group.Wait(); err != nil {
				t.Error(err)
			}
			replica.wire.cut()
		}
		if w.twice > 0 {
			t.Errorf("%d reconciles began while another replica reconciled the object", w.twice)
		}
	})
}

func (w *shareWorld) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// replica adds a manager.
func (w *shareWorld) replica(change func(*controller.Options), options ...controller.Option) *shareReplica {
	w.t.Helper()
	r := &shareReplica{shareWorld: w, name: fmt.Sprintf("replica-%d", len(w.replicas)), wire: newShareWire(w.server), group: lifecycle.New(w.t.Context()), done: map[string]int{}}
	config := w.server.Config()
	config.Transport = r.wire
	of := controller.Options{
		Shards: &shards.Options{Group: "test", Namespace: "operators", Identity: r.name},
		Logger: slog.New(slog.DiscardHandler), OnError: func(error) {},
	}
	if change != nil {
		change(&of)
	}
	var err error
	r.manager, err = controller.NewManager(config, scheme.Scheme, of)
	w.must(err)
	w.must(r.manager.Add("configs", r.reconcile, append([]controller.Option{
		controller.For(&corev1.ConfigMap{}), controller.Owns(&corev1.Secret{})}, options...)...))
	w.mu.Lock()
	w.replicas = append(w.replicas, r)
	w.mu.Unlock()
	r.group.Go("manager", r.manager.Run)
	return r
}

// reconcile keeps a secret for each config map.
func (r *shareReplica) reconcile(ctx context.Context, request operators.Request) (time.Duration, error) {
	if !r.enter(request.Name) {
		return 0, nil
	}
	defer r.leave(request.Name)
	if r.takes > 0 {
		wait := time.NewTimer(r.takes)
		defer wait.Stop()
		select {
		case <-wait.C:
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
	}
	config, err := controller.Get[*corev1.ConfigMap](ctx, r.manager.Client(), request.NamespacedName)
	if err != nil {
		return 0, controller.IgnoreNotFound(err)
	}
	if _, err := controller.Get[*corev1.Secret](ctx, r.manager.Client(), request.NamespacedName); err != nil {
		if controller.IgnoreNotFound(err) != nil {
			return 0, err
		}
		made := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: request.Namespace, Name: request.Name}}
		if err := controller.SetControllerReference(r.manager.Client(), config, made); err != nil {
			return 0, err
		}
		if _, err := controller.Create(ctx, r.manager.Client(), made); err != nil {
			return 0, err
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.done[request.Name]++
	r.read[request.Name] = config.ResourceVersion
	return 0, nil
}

func (r *shareReplica) enter(name string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.dead {
		return false
	}
	if other := r.inside[name]; other != nil && other != r && !other.dead {
		r.twice++
	}
	r.inside[name] = r
	return true
}

func (r *shareReplica) leave(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.inside[name] == r {
		delete(r.inside, name)
	}
}

// kill ends a replica without a farewell.
func (r *shareReplica) kill() {
	r.mu.Lock()
	r.dead = true
	maps.DeleteFunc(r.inside, func(_ string, by *shareReplica) bool { return by == r })
	r.mu.Unlock()
	r.wire.cut()
	r.group.Stop()
}

func (w *shareWorld) create(count int) {
	w.t.Helper()
	for i := range count {
		w.must(w.server.Create(config(fmt.Sprintf("x%03d", i))))
	}
}

// wait lets time pass.
func (w *shareWorld) wait(duration time.Duration) {
	<-time.After(duration)
	synctest.Wait()
}

// isTrue checks that each config map was reconciled at its version, and that the living replicas hold each
// config map and each secret once, together.
func (w *shareWorld) isTrue(when string) {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	list := &corev1.ConfigMapList{}
	w.must(w.server.List(list))
	for _, object := range list.Items {
		if w.read[object.Name] != object.ResourceVersion {
			w.t.Errorf("%s %s is at version %s, and %q was reconciled", when, object.Name, object.ResourceVersion, w.read[object.Name])
		}
		var holders []string
		for _, replica := range w.replicas {
			if replica.dead || replica.group.Context().Err() != nil {
				continue
			}
			if held, found := cached[*corev1.ConfigMap](replica.manager.Client(), nameOf(&object)); found {
				holders = append(holders, replica.name)
				if held.ResourceVersion != object.ResourceVersion {
					w.t.Errorf("%s %s holds %s at %s, want %s", when, replica.name, object.Name, held.ResourceVersion, object.ResourceVersion)
				}
				if _, found := cached[*corev1.Secret](replica.manager.Client(), nameOf(&object)); !found {
					w.t.Errorf("%s %s holds %s without its secret", when, replica.name, object.Name)
				}
			}
		}
		if len(holders) != 1 {
			w.t.Errorf("%s %s is held by %v", when, object.Name, holders)
		}
	}
}

// held returns the number of config maps and of secrets in the cache.
func (r *shareReplica) held() (configs, secrets int) {
	return len(listed[*corev1.ConfigMap](r.manager.Client())), len(listed[*corev1.Secret](r.manager.Client()))
}

// names returns the names of the objects that the replica has reconciled.
func (r *shareReplica) names() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Sorted(maps.Keys(r.done))
}
