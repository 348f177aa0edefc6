package loop_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bellerophon-io/bellerophon/bellerophon/dev/contract"
	"github.com/bellerophon-io/bellerophon/bellerophon/dev/loop"
	"github.com/bellerophon-io/bellerophon/bellerophon/dev/worktree"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// fakeManifests holds service bindings. Nothing else is applied.
type fakeManifests struct {
	mu    sync.Mutex
	ready map[string]string // the status of the condition Ready, by the name of the binding
}

// Apply implements loop.Manifests.
func (m *fakeManifests) Apply(_ context.Context, _ *corev1.ConfigMap, object *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	return object, nil
}

// Delete implements loop.Manifests.
func (m *fakeManifests) Delete(context.Context, contract.Object) error { return nil }

// Binding implements loop.Manifests.
func (m *fakeManifests) Binding(_ context.Context, name string) (*unstructured.Unstructured, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	status, is := m.ready[name]
	if !is {
		return nil, nil
	}
	condition := map[string]any{"type": "Ready", "status": status, "reason": "Injection", "message": "the workload is not bound"}
	return &unstructured.Unstructured{Object: map[string]any{"status": map[string]any{"conditions": []any{condition}}}}, nil
}

func (m *fakeManifests) set(name, status string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ready[name] = status
}

func TestTheBindingsThatTheDeploymentNamesAreAwaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.end()
		bindings := &fakeManifests{ready: map[string]string{"queue": "True"}}
		w.manifests = bindings
		w.devfile = strings.Replace(devfile, "    mountSources: true\n",
			"    mountSources: true\n    annotation: {deployment: {"+loop.BindingsAnnotation+": 'queue, database'}}\n", 1)
		w.start()
		for _, step := range []struct{ status, message string }{
			{"", "waiting for the service binding database, which does not exist"},
			{"False", "waiting for the service binding database: Injection the workload is not bound"},
		} {
			if step.status != "" {
				bindings.set("database", step.status)
				w.project.edit(func(tree worktree.Tree) { tree["main.go"] = version(9) }) // Any event makes a call.
			}
			<-time.After(time.Minute)
			if got := w.status(); got.State != contract.WaitBindings || got.Message != step.message {
				t.Errorf("the Status is %s: %s, want %s", got.State, got.Message, step.message)
			}
		}
		bindings.set("database", "True")
		w.project.edit(func(tree worktree.Tree) { tree["main.go"] = version(10) })
		w.wantRunning(time.Minute)
	})
}
