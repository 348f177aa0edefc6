package manifests_test

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/bellerophon/dev/contract"
	"github.com/bellerophon-io/bellerophon/bellerophon/dev/manifests"
	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/internal/localcluster/clustertest"
	"github.com/bellerophon-io/bellerophon/operators"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes/scheme"
)

func TestMain(m *testing.M) { clustertest.Main(m) }

const application = "hero"

var (
	configMaps   = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	deployments  = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
	clusterRoles = schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterroles"}
	definitions  = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
)

// world is a namespace of a real API server with the Manifests of an application.
type world struct {
	*manifests.Manifests

	t         *testing.T
	ctx       context.Context
	namespace string
	owner     *corev1.ConfigMap
	others    dynamic.Interface // another client
	patches   atomic.Int64
	changed   chan struct{}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func newWorld(t *testing.T) *world {
	t.Helper()
	config, namespace := clustertest.Shared(t).AdminConfig(), clustertest.Namespace(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	w := &world{t: t, ctx: ctx, namespace: namespace, changed: make(chan struct{}, 1)}
	others, err := dynamic.NewForConfig(config)
	must(t, err)
	w.others = others
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return &counter{next: next, patches: &w.patches} })
	manager, err := controller.NewManager(config, scheme.Scheme, controller.Options{
		Namespaces: []string{namespace}, Logger: slog.New(slog.DiscardHandler), OnError: func(error) {},
	})
	must(t, err)
	// The controller watches some of these kinds, too, and in another way.
	must(t, manager.Add("specs", func(context.Context, operators.Request) (time.Duration, error) { return 0, nil },
		controller.For(&corev1.ConfigMap{}, controller.LabelSelector(contract.ApplicationLabel+"="+application)),
		controller.Owns(&appsv1.Deployment{})))
	w.Manifests, err = manifests.New(manager, namespace, application, slog.New(slog.DiscardHandler), func() {
		select {
		case w.changed <- struct{}{}:
		default:
		}
	})
	must(t, err)
	group := lifecycle.New(t.Context())
	group.Go("manager", manager.Run)
	t.Cleanup(func() {
		group.Stop()
		if err := group.Wait(); err != nil {
			t.Error(err)
		}
	})
	specs, err := contract.Specs{Devfile: "a"}.ConfigMap(namespace, application)
	must(t, err)
	w.owner, err = controller.Create(ctx, manager.Client(), specs)
	must(t, err)
	return w
}

// counter counts the writes of server-side apply.
type counter struct {
	next    http.RoundTripper
	patches *atomic.Int64
}

func (c *counter) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Method == http.MethodPatch {
		c.patches.Add(1)
	}
	return c.next.RoundTrip(request)
}

func object(apiVersion, kind, name string, fields map[string]any) *unstructured.Unstructured {
	made := &unstructured.Unstructured{Object: fields}
	made.SetAPIVersion(apiVersion)
	made.SetKind(kind)
	made.SetName(name)
	return made
}

func settings(value string) *unstructured.Unstructured {
	return object("v1", "ConfigMap", "settings", map[string]any{"data": map[string]any{"key": value}})
}

func (w *world) apply(object *unstructured.Unstructured) *unstructured.Unstructured {
	w.t.Helper()
	applied, err := w.Apply(w.ctx, w.owner, object)
	must(w.t, err)
	return applied
}

// until waits until something holds. It asks after each change that the Manifests report.
func (w *world) until(what string, holds func() bool) {
	w.t.Helper()
	for !holds() {
		select {
		case <-w.changed:
		case <-w.ctx.Done():
			w.t.Fatalf("not within a minute: %s", what)
		}
	}
}

// settled applies an object until the watch has reported it as it was applied. Then no Apply sends a request.
func (w *world) settled(wanted func() *unstructured.Unstructured) {
	w.t.Helper()
	w.until("the watch has reported "+wanted().GetName(), func() bool {
		before := w.patches.Load()
		w.apply(wanted())
		return w.patches.Load() == before
	})
}

// get returns an object as it is on the API server, or nil.
func (w *world) get(resource schema.GroupVersionResource, name string) *unstructured.Unstructured {
	w.t.Helper()
	found, err := w.others.Resource(resource).Namespace(w.namespace).Get(w.ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	must(w.t, err)
	return found
}

func (w *world) update(resource schema.GroupVersionResource, object *unstructured.Unstructured) {
	w.t.Helper()
	_, err := w.others.Resource(resource).Namespace(w.namespace).Update(w.ctx, object, metav1.UpdateOptions{})
	must(w.t, err)
}

func value(object *unstructured.Unstructured) string {
	if object == nil {
		return "(no object)"
	}
	found, _, _ := unstructured.NestedString(object.Object, "data", "key")
	return found
}

// again makes until ask again after an error that passes, such as a kind that is not served yet.
func (w *world) again(err error) {
	if err == nil {
		return
	}
	select {
	case <-time.After(100 * time.Millisecond): // No event says that the API server serves a kind.
	case <-w.ctx.Done():
	}
	select {
	case w.changed <- struct{}{}:
	default:
	}
}

// install installs a definition until the test has ended.
func (w *world) install(group, version, kind string) {
	w.t.Helper()
	plural := strings.ToLower(kind) + "s"
	definition := object("apiextensions.k8s.io/v1", "CustomResourceDefinition", plural+"."+group, map[string]any{"spec": map[string]any{
		"group": group, "scope": "Namespaced", "names": map[string]any{"plural": plural, "kind": kind},
		"versions": []any{map[string]any{
			"name": version, "served": true, "storage": true, "subresources": map[string]any{"status": map[string]any{}},
			"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
		}},
	}})
	_, err := w.others.Resource(definitions).Create(w.ctx, definition, metav1.CreateOptions{})
	must(w.t, err)
	w.t.Cleanup(func() {
		if err := w.others.Resource(definitions).Delete(context.WithoutCancel(w.ctx), definition.GetName(), metav1.DeleteOptions{}); err != nil {
			w.t.Error(err)
		}
	})
}
