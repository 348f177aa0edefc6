package main

import (
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/controller/controllertest"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/sources/sourcestest"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

func TestMain(m *testing.M) { controllertest.Main(m) }

// world runs hooks in virtual time, over an API server in memory. A run is recorded instead of a process.
type world struct {
	t       *testing.T
	server  *sourcestest.Server
	manager *controller.Manager
	patches *patcher
	hooks   map[string]*Hook

	mu   sync.Mutex
	runs []string                                     // hook, and the binding, type, watch event and name of each context
	last map[string][]map[string]any                  // the last contexts of each hook
	does func(ctx context.Context, hook string) error // what a run does
}

var served = []*metav1.APIResourceList{{GroupVersion: "v1", APIResources: []metav1.APIResource{
	{Name: "configmaps", SingularName: "configmap", Kind: "ConfigMap", ShortNames: []string{"cm"}, Namespaced: true},
	{Name: "secrets", SingularName: "secret", Kind: "Secret", Namespaced: true},
	{Name: "namespaces", SingularName: "namespace", Kind: "Namespace", ShortNames: []string{"ns"}},
	{Name: "pods", SingularName: "pod", Kind: "Pod", ShortNames: []string{"po"}, Namespaced: true},
	{Name: "pods/status", Kind: "Pod", Namespaced: true},
}}}

func servedKinds() *kinds {
	return &kinds{discover: func(context.Context) ([]*metav1.APIResourceList, error) { return served, nil }}
}

// inWorld runs a test with hooks of the given configurations, by their names.
func inWorld(t *testing.T, configs map[string]string, test func(w *world), existing ...*corev1.ConfigMap) {
	synctest.Test(t, func(t *testing.T) {
		server, err := sourcestest.New(sourcestest.Options{Scheme: scheme.Scheme})
		if err != nil {
			t.Fatal(err)
		}
		w := &world{t: t, server: server, hooks: map[string]*Hook{}, last: map[string][]map[string]any{},
			does: func(context.Context, string) error { return nil }}
		for _, object := range existing {
			w.must(server.Create(object))
		}
		var hooks []*Hook
		for _, name := range []string{"a", "b", "c"} {
			if text, given := configs[name]; given {
				config, err := parseConfig([]byte(text))
				w.must(err)
				w.hooks[name] = &Hook{Name: name, Config: config}
				hooks = append(hooks, w.hooks[name])
			}
		}
		client, err := rest.HTTPClientFor(server.Config())
		w.must(err)
		logger := slog.New(slog.NewTextHandler(t.Output(), nil))
		w.manager, w.patches, err = newManager(t.Context(), server.Config(), client, hooks, servedKinds(), w.run, Options{Logger: logger})
		w.must(err)
		group := lifecycle.New(t.Context())
		group.Go("manager", w.manager.Run)
		<-time.After(time.Second)
		test(w)
		group.Stop()
		w.must(group.Wait())
	})
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// run records a run, and then does what the test asks for.
func (w *world) run(ctx context.Context, hook *Hook, contexts []map[string]any) error {
	var words []string
	for _, each := range contexts {
		word := each["binding"].(string)
		for _, field := range []string{"type", "watchEvent"} {
			if value, given := each[field]; given {
				word += " " + value.(string)
			}
		}
		if object, given := each["object"].(map[string]any); given {
			word += " " + object["metadata"].(map[string]any)["name"].(string)
		}
		words = append(words, word)
	}
	w.mu.Lock()
	w.runs = append(w.runs, hook.Name+": "+strings.Join(words, ", "))
	w.last[hook.Name] = contexts
	does := w.does
	w.mu.Unlock()
	return does(ctx, hook.Name)
}

// hooksDo sets what a run of a hook does.
func (w *world) hooksDo(does func(ctx context.Context, hook string) error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.does = does
}

// expect waits for a second, and checks the runs since the last expect.
func (w *world) expect(when string, want ...string) {
	w.t.Helper()
	w.expectAfter(time.Second, when, want...)
}

// expectInAnyOrder is expect for the runs of several queues.
func (w *world) expectInAnyOrder(when string, want ...string) {
	w.t.Helper()
	<-time.After(time.Second)
	w.mu.Lock()
	slices.Sort(w.runs)
	w.mu.Unlock()
	slices.Sort(want)
	w.expectAfter(0, when, want...)
}

func (w *world) expectAfter(wait time.Duration, when string, want ...string) {
	w.t.Helper()
	<-time.After(wait)
	w.mu.Lock()
	defer w.mu.Unlock()
	if got := strings.Join(w.runs, "\n"); got != strings.Join(want, "\n") {
		w.t.Errorf("%s the runs were\n%s\nwant\n%s", when, got, strings.Join(want, "\n"))
	}
	w.runs = nil
}

// lastOf returns the last contexts of a hook as JSON.
func (w *world) lastOf(hook string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	text, err := json.Marshal(w.last[hook])
	w.must(err)
	return string(text)
}

func configMap(name string, data ...string) *corev1.ConfigMap {
	made := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Data: map[string]string{}}
	for i := 0; i < len(data); i += 2 {
		made.Data[data[i]] = data[i+1]
	}
	return made
}
