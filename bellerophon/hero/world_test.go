package hero

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "github.com/bellerophon-io/bellerophon/bellerophon/api/hero/v1"
	"github.com/bellerophon-io/bellerophon/bellerophon/owned"
	"github.com/bellerophon-io/bellerophon/bellerophon/render"
	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/internal/localcluster/clustertest"
	"github.com/prometheus/client_golang/prometheus"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

var heroes = v1.GroupVersion.WithResource("heroes")

// world is a namespace with an operator, and a node that runs real members.
type world struct {
	t         *testing.T
	ctx       context.Context
	namespace string
	config    *rest.Config
	core      kubernetes.Interface
	heroes    dynamic.ResourceInterface
	kubelet   *kubelet
	stop      func() // the operator
	registry  *prometheus.Registry
}

// heroName is the name of the hero of a test.
const heroName = "bellerophon"

var installOnce sync.Once

var schemeOfTests = sync.OnceValue(func() *runtime.Scheme {
	made := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{scheme.AddToScheme, AddToScheme} {
		if err := add(made); err != nil {
			panic(err)
		}
	}
	return made
})

func newWorld(t *testing.T) *world {
	t.Helper()
	return newWorldIn(t, clustertest.Namespace(t))
}

// newWorldIn is a world of one namespace, or of all if it is empty.
func newWorldIn(t *testing.T, namespace string) *world {
	t.Helper()
	cluster := clustertest.Shared(t)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	t.Cleanup(cancel)
	w := &world{t: t, ctx: ctx, namespace: namespace, config: cluster.AdminConfig()}
	var err error
	if w.core, err = kubernetes.NewForConfig(w.config); err != nil {
		t.Fatal(err)
	}
	clients, err := dynamic.NewForConfig(w.config)
	if err != nil {
		t.Fatal(err)
	}
	w.heroes = clients.Resource(heroes).Namespace(w.namespace)
	installOnce.Do(func() { w.install(clients) })
	w.kubelet = newKubelet(t, w.core, w.namespace)
	w.startOperator()
	return w
}

// operatorUser is the user of the operator. It has the permissions of the chart, and no others.
const operatorUser = "operator-of-heroes"

// install installs the resource definition and the permissions of the chart, and waits until heroes are served.
func (w *world) install(clients dynamic.Interface) {
	w.t.Helper()
	manifests, err := render.Operator("bellerophon", "bellerophon-system", map[string]any{"heroes": map[string]any{"enabled": true}})
	if err != nil {
		w.t.Fatal(err)
	}
	subject := map[string]any{"apiGroup": rbacv1.GroupName, "kind": rbacv1.UserKind, "name": operatorUser}
	for _, object := range manifests.Objects {
		var resource schema.GroupVersionResource
		switch object.GetKind() {
		case "CustomResourceDefinition":
			resource = apiextensionsv1.SchemeGroupVersion.WithResource("customresourcedefinitions")
		case "ValidatingAdmissionPolicy":
			resource = admissionv1.SchemeGroupVersion.WithResource("validatingadmissionpolicies")
		case "ValidatingAdmissionPolicyBinding":
			resource = admissionv1.SchemeGroupVersion.WithResource("validatingadmissionpolicybindings")
		case "ClusterRole":
			resource = rbacv1.SchemeGroupVersion.WithResource("clusterroles")
		case "ClusterRoleBinding":
			resource = rbacv1.SchemeGroupVersion.WithResource("clusterrolebindings")
			if err := unstructured.SetNestedSlice(object.Object, []any{subject}, "subjects"); err != nil {
				w.t.Fatal(err)
			}
		default:
			continue
		}
		// Another test may have applied the definition.
		if _, err := clients.Resource(resource).Apply(w.ctx, object.GetName(), object, metav1.ApplyOptions{FieldManager: "tests", Force: true}); err != nil {
			w.t.Fatal(err)
		}
	}
	w.eventually("heroes are served", func() error {
		_, err := w.heroes.List(w.ctx, metav1.ListOptions{})
		return err
	})
}

// startOperator starts the operator. stop ends it.
func (w *world) startOperator() {
	w.t.Helper()
	config := rest.CopyConfig(w.config)
	config.Impersonate = rest.ImpersonationConfig{UserName: operatorUser}
	_, w.registry, w.stop = w.operator(config, controller.Options{})
}

// operator starts an operator with a configuration. The options that all tests share are filled in. stop ends it.
func (w *world) operator(config *rest.Config, options controller.Options) (made *reconciler, registry *prometheus.Registry, stop func()) {
	w.t.Helper()
	var namespaces []string // All.
	if w.namespace != "" {
		namespaces = []string{w.namespace}
	}
	options.DetectMutations, options.Namespaces = true, namespaces
	options.Logger = slog.New(slog.NewTextHandler(w.t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	manager, err := controller.NewManager(config, schemeOfTests(), options)
	if err != nil {
		w.t.Fatal(err)
	}
	if made, err = addTo(manager, owned.KindsOf(Fields()), w.kubelet.dial); err != nil {
		w.t.Fatal(err)
	}
	group := lifecycle.New(context.Background())
	group.Go("operator", manager.Run)
	stop = sync.OnceFunc(func() {
		group.Stop()
		if err := group.Wait(); err != nil {
			w.t.Errorf("the operator failed: %v", err)
		}
	})
	w.t.Cleanup(stop)
	return made, manager.Registry(), stop
}

// eventually waits until a condition holds.
func (w *world) eventually(what string, holds func() error) {
	w.t.Helper()
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for {
		err := holds()
		if err == nil {
			return
		}
		select {
		case <-ticker.C:
		case <-w.ctx.Done():
			w.t.Fatalf("waiting until %s: %v", what, err)
		}
	}
}

func (w *world) create(name string, spec map[string]any) {
	w.t.Helper()
	_, err := w.heroes.Create(w.ctx, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": v1.GroupVersion.String(), "kind": "Bellerophon", "metadata": map[string]any{"name": name}, "spec": spec,
	}}, metav1.CreateOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
}

// change changes the hero, as kubectl patch does.
func (w *world) change(patch string) {
	w.t.Helper()
	w.changeOf(heroName, patch)
}

func (w *world) changeOf(name, patch string) {
	w.t.Helper()
	if _, err := w.heroes.Patch(w.ctx, name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) hero(name string) *v1.Bellerophon {
	w.t.Helper()
	object, err := w.heroes.Get(w.ctx, name, metav1.GetOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	hero := &v1.Bellerophon{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, hero); err != nil {
		w.t.Fatal(err)
	}
	return hero
}

// ready waits until the current generation of the hero is Ready.
func (w *world) ready() (hero *v1.Bellerophon) {
	w.t.Helper()
	w.eventually("the hero is ready", func() error {
		hero = w.hero(heroName)
		found := meta.FindStatusCondition(hero.Status.Conditions, v1.ConditionReady)
		if found == nil || found.Status != metav1.ConditionTrue || found.ObservedGeneration != hero.Generation {
			return fmt.Errorf("its status is %+v", hero.Status)
		}
		return nil
	})
	return hero
}

// call sends a request to any member that runs.
func (w *world) call(method, path, body string) (code int, content string, err error) {
	for _, address := range w.kubelet.running() {
		var request *http.Request
		if request, err = http.NewRequestWithContext(w.ctx, method, "http://"+address+path, bytes.NewReader([]byte(body))); err != nil {
			return 0, "", err
		}
		var response *http.Response
		if response, err = plain.Do(request); err != nil {
			continue
		}
		read, err := io.ReadAll(response.Body)
		_ = response.Body.Close()
		if response.StatusCode == http.StatusServiceUnavailable {
			code, content = response.StatusCode, string(read)
			continue
		}
		return response.StatusCode, string(read), err
	}
	return code, content, err
}

var plain = &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}

// put writes a key.
func (w *world) put(key, value string) {
	w.t.Helper()
	w.eventually("a key is written", func() error {
		code, content, err := w.call(http.MethodPut, "/v1/keys/"+key, value)
		if err == nil && code != 200 {
			err = fmt.Errorf("%d %s", code, strings.TrimSpace(content))
		}
		return err
	})
}

// wantHorse checks that the key horse is still pegasus.
func (w *world) wantHorse() {
	w.t.Helper()
	const key, want = "horse", "pegasus"
	w.eventually("a key is read", func() error {
		code, content, err := w.call(http.MethodGet, "/v1/keys/"+key, "")
		switch {
		case err != nil:
			return err
		case code == 200 && content != want:
			w.t.Fatalf("%s is %q, want %q", key, content, want)
		case code != 200:
			return fmt.Errorf("%d %s", code, content)
		}
		return nil
	})
}
