package dependents_test

import (
	"context"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/controller/dependents"
	"github.com/bellerophon-io/bellerophon/controller/internal/crashtest"
	"github.com/bellerophon-io/bellerophon/sources/sourcestest"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
)

// world has an owner, a ConfigMap. The manager of a test keeps its children, which are Secrets.
type world struct {
	*crashtest.World
	t      *testing.T
	server *sourcestest.Server

	mu       sync.Mutex
	sent     []string // the writes, as method and name
	onWrite  func(method, name string)
	outcomes []dependents.Outcome
}

func inWorld(t *testing.T, test func(w *world)) {
	t.Helper()
	crashtest.InWorld(t, scheme.Scheme, func(of *crashtest.World) {
		w := &world{World: of, t: of.T, server: of.Server}
		w.must(w.server.Create(w.owner()))
		test(w)
	})
}

func (w *world) must(err error) {
	w.t.Helper()
	w.Must(err)
}

func (w *world) owner() *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "owner"}}
}

// start runs a manager with a controller that keeps a set. stopAt and after stop its client at a write, if
// stopAt is not 0.
func (w *world) start(set *dependents.Set[*corev1.ConfigMap], stopAt int, after bool, options ...controller.Option) {
	w.t.Helper()
	onWrite := func(method, object string) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.sent = append(w.sent, method+" "+path.Base(object))
		if w.onWrite != nil {
			w.onWrite(method, path.Base(object))
		}
	}
	w.Start(stopAt, after, onWrite, func(manager *controller.Manager) {
		c := manager.Client()
		reconcile := controller.Typed(c, controller.TypedReconciler[*corev1.ConfigMap]{
			Reconcile: func(ctx context.Context, owner *corev1.ConfigMap) (controller.Result, error) {
				outcome := set.Reconcile(ctx, c, owner)
				w.mu.Lock()
				w.outcomes = append(w.outcomes, outcome)
				w.mu.Unlock()
				return outcome.Result()
			},
		})
		options = append(options, set.Owns()...)
		for i, option := range options {
			if option == nil {
				options[i] = set.Finalizer(c, "acme.io/children")
			}
		}
		w.must(manager.Add("owners", reconcile, append(options, controller.For(&corev1.ConfigMap{}))...))
	})
}

func (w *world) stop() {
	w.t.Helper()
	w.Stop()
}

func (w *world) wait(duration time.Duration) { w.Wait(duration) }

// set changes the data of the owner, as its user does.
func (w *world) set(data map[string]string) {
	w.t.Helper()
	owner := w.owner()
	w.must(w.server.Get(owner))
	owner.Data = data
	w.must(w.server.Update(owner))
	w.wait(time.Minute)
}

// markReady says that a child is ready or not, as the controller of its kind does.
func (w *world) markReady(name string, ready bool) {
	w.t.Helper()
	child := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name}}
	w.must(w.server.Get(child))
	metav1.SetMetaDataAnnotation(&child.ObjectMeta, "ready", fmt.Sprint(ready))
	w.must(w.server.Update(child))
	w.wait(time.Minute)
}

// children returns the children that exist, by name.
func (w *world) children() map[string]corev1.Secret {
	w.t.Helper()
	list := &corev1.SecretList{}
	w.must(w.server.List(list))
	found := map[string]corev1.Secret{}
	for _, child := range list.Items {
		found[child.Name] = child
	}
	return found
}

// want checks which children exist.
func (w *world) want(when string, names ...string) {
	w.t.Helper()
	if got := slices.Sorted(maps.Keys(w.children())); !slices.Equal(got, names) {
		w.t.Errorf("%s the children are %q, want %q; the outcome is %q", when, got, names, w.last().Message())
	}
}

// wantSent checks the writes since the last call.
func (w *world) wantSent(when string, want ...string) {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if !slices.Equal(w.sent, want) {
		w.t.Errorf("%s it sent %q, want %q", when, w.sent, want)
	}
	w.sent = nil
}

// last returns the last outcome.
func (w *world) last() dependents.Outcome {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.outcomes) == 0 {
		return dependents.Outcome{}
	}
	return w.outcomes[len(w.outcomes)-1]
}

// calls returns the number of calls of the set.
func (w *world) calls() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.outcomes)
}

// wantStates checks the last outcome, as "name=State" with spaces.
func (w *world) wantStates(when, want string) {
	w.t.Helper()
	var got []string
	for _, status := range w.last().Dependents {
		got = append(got, status.Name+"="+string(status.State))
	}
	if strings.Join(got, " ") != want {
		w.t.Errorf("%s the states are %q, want %q: %s", when, strings.Join(got, " "), want, w.last().Message())
	}
}

type child = dependents.Children[*corev1.ConfigMap, *corev1.Secret]

// secret declares a child with the value that its owner has. It is desired unless the owner's data names it
// under "without", and ready when markReady says so.
func secret(name string) *child {
	return dependents.One(name, func(_ context.Context, owner *corev1.ConfigMap, _ *dependents.View) (*corev1.Secret, error) {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string][]byte{"value": []byte(owner.Data["value"])}}, nil
	}).When(func(owner *corev1.ConfigMap, _ *dependents.View) bool {
		return !strings.Contains(owner.Data["without"], name)
	})
}

// slow makes a child ready only when markReady says so.
func slow(of *child) *child {
	return of.Ready(func(_ context.Context, object *corev1.Secret) (dependents.Readiness, error) {
		return dependents.Readiness{Ready: object.Annotations["ready"] == "true"}, nil
	})
}

func (w *world) newSet(members ...dependents.Dependent[*corev1.ConfigMap]) *dependents.Set[*corev1.ConfigMap] {
	w.t.Helper()
	set, err := dependents.NewSet("test", dependents.Options{}, members...)
	w.must(err)
	return set
}
