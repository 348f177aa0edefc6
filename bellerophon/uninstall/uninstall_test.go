package uninstall_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "github.com/bellerophon-io/bellerophon/bellerophon/api/hero/v1"
	"github.com/bellerophon-io/bellerophon/bellerophon/install"
	"github.com/bellerophon-io/bellerophon/bellerophon/uninstall"
	"github.com/bellerophon-io/bellerophon/internal/localcluster/clustertest"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

func TestMain(m *testing.M) { clustertest.Main(m) }

var (
	heroes      = v1.GroupVersion.WithResource("heroes")
	definitions = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	namespaces  = corev1.SchemeGroupVersion.WithResource("namespaces")
	webhooks    = schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingwebhookconfigurations"}
	deployments = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
)

const lastBackup = "stable.bellerophon.io/last-backup"

var options = uninstall.Options{Release: install.Release, Namespace: install.Namespace, Timeout: time.Minute}

// world is a cluster with a release whose operator is dead, and with a hero that waits for it.
type world struct {
	*testing.T
	config    *rest.Config
	client    dynamic.Interface
	namespace string // of the hero
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// newWorld installs a release with all that can hold objects back: no pod runs a program, but webhooks are registered, the
// definition has a conversion, and a hero has a finalizer.
func newWorld(t *testing.T) *world {
	w := &world{T: t, config: clustertest.Shared(t).AdminConfig(), namespace: "of-a-hero"}
	_, err := install.MakeNamespace(t.Context(), w.config, w.namespace)
	w.must(err)
	w.client, err = dynamic.NewForConfig(w.config)
	w.must(err)
	_, err = install.Operator(t.Context(), w.config, install.Options{Heroes: true, Deploy: true})
	w.must(err)
	t.Cleanup(func() { // For the next test.
		if err := w.uninstall(uninstall.Options{Release: install.Release, Namespace: install.Namespace, Timeout: time.Minute, Everything: true, Force: true}); err != nil {
			t.Error(err)
		}
		w.goes(w.namespace)
		w.goes(install.Namespace)
	})
	hero := &v1.Bellerophon{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1.GroupVersion.String(), Kind: "Bellerophon"},
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "pegasus", Finalizers: []string{lastBackup, "example.org/mine"}},
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(hero)
	w.must(err)
	unstructured.RemoveNestedField(content, "status")
	_, err = w.client.Resource(heroes).Namespace(w.namespace).Create(t.Context(), &unstructured.Unstructured{Object: content}, metav1.CreateOptions{})
	w.must(err)
	name := install.Release + "-webhooks." + install.Namespace
	_, err = w.client.Resource(webhooks).Patch(t.Context(), name, types.MergePatchType, []byte(`{"webhooks":[{"name":"dead.bellerophon.io","sideEffects":"None",
		"admissionReviewVersions":["v1"],"failurePolicy":"Fail","clientConfig":{"service":{"namespace":"`+install.Namespace+`","name":"bellerophon-webhooks"}},
		"rules":[{"apiGroups":["stable.bellerophon.io"],"apiVersions":["*"],"operations":["*"],"resources":["heroes"]}]}]}`), metav1.PatchOptions{})
	w.must(err)
	return w
}

func (w *world) uninstall(options uninstall.Options) error {
	plan, err := uninstall.Look(context.WithoutCancel(w.Context()), w.config, options)
	if err != nil {
		return err
	}
	return plan.Run(context.WithoutCancel(w.Context()), func(step uninstall.Step) { w.Log(step.Action, step) })
}

// goes deletes a namespace as a user would, and fails if it stays.
func (w *world) goes(name string) {
	w.Helper()
	ctx := context.WithoutCancel(w.Context())
	client := w.client.Resource(namespaces)
	err := client.Delete(ctx, name, metav1.DeleteOptions{})
	if apierrors.IsNotFound(err) {
		return
	}
	w.must(err)
	if err := wait.PollUntilContextTimeout(ctx, 200*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		_, err := client.Get(ctx, name, metav1.GetOptions{})
		return apierrors.IsNotFound(err), nil
	}); err != nil {
		held, _ := client.Get(ctx, name, metav1.GetOptions{})
		w.Fatalf("the namespace %s stays: %v", name, held)
	}
}

// left returns all objects of all kinds that have the labels of the release.
func (w *world) left() (names []string) {
	w.Helper()
	client, err := discovery.NewDiscoveryClientForConfig(w.config)
	w.must(err)
	_, served, err := client.ServerGroupsAndResources()
	w.must(err)
	for _, list := range discovery.FilteredBy(discovery.SupportsAllVerbs{Verbs: []string{"list", "delete"}}, served) {
		version, err := schema.ParseGroupVersion(list.GroupVersion)
		w.must(err)
		for _, resource := range list.APIResources {
			found, err := w.client.Resource(version.WithResource(resource.Name)).List(w.Context(), metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=bellerophon-operator"})
			if apierrors.IsNotFound(err) {
				continue
			}
			w.must(err)
			for i := range found.Items {
				names = append(names, resource.Name+" "+found.Items[i].GetName())
			}
		}
	}
	return names
}

func TestWithoutItsOperatorAHeroGoesAndItsNamespaceGoes(t *testing.T) {
	w := newWorld(t)
	if err := w.client.Resource(heroes).Namespace(w.namespace).Delete(t.Context(), "pegasus", metav1.DeleteOptions{}); err == nil || !strings.Contains(err.Error(), "dead.bellerophon.io") {
		t.Fatalf("before it, the webhook answers %v", err)
	}

	plan, err := uninstall.Look(t.Context(), w.config, options)
	w.must(err)
	held, err := w.client.Resource(deployments).Namespace(install.Namespace).Get(t.Context(), install.Release, metav1.GetOptions{})
	if err != nil || held.GetDeletionTimestamp() != nil {
		t.Fatalf("after a look, the Deployment is %v, %v", held, err)
	}
	order := []string{"delete Deployment", "delete ValidatingWebhookConfiguration", "change CustomResourceDefinition", "change Bellerophon " + w.namespace + "/pegasus", "delete ServiceAccount", "keep Namespace"}
	for _, step := range plan.Steps {
		if len(order) > 0 && strings.HasPrefix(step.Action+" "+step.String(), order[0]) {
			order = order[1:]
		}
	}
	if len(order) > 0 {
		t.Errorf("the plan lacks %q, or has another order: %v", order, plan.Steps)
	}

	w.must(w.uninstall(options))
	if left := w.left(); len(left) > 0 {
		t.Errorf("these objects of the release are left: %q", left)
	}
	again, err := uninstall.Look(t.Context(), w.config, options)
	w.must(err)
	if again.Changes() {
		t.Errorf("a second time it would do %v", again.Steps)
	}
	hero, err := w.client.Resource(heroes).Namespace(w.namespace).Get(t.Context(), "pegasus", metav1.GetOptions{})
	w.must(err)
	if got := hero.GetFinalizers(); !slices.Equal(got, []string{"example.org/mine"}) {
		t.Errorf("the hero has the finalizers %q; one of another program must stay", got)
	}
	_, err = w.client.Resource(heroes).Namespace(w.namespace).Patch(t.Context(), "pegasus", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
	w.must(err)
	w.goes(w.namespace) // With the hero in it.
}

func TestEverythingIsRefusedWhileObjectsWouldWaitForADeadOperator(t *testing.T) {
	w := newWorld(t)
	_, err := w.client.Resource(deployments).Namespace(install.Namespace).Patch(t.Context(), install.Release, types.MergePatchType, []byte(`{"spec":{"replicas":0}}`), metav1.PatchOptions{})
	w.must(err)
	w.must(wait.PollUntilContextTimeout(t.Context(), 200*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		held, err := w.client.Resource(deployments).Namespace(install.Namespace).Get(ctx, install.Release, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		ready, _, err := unstructured.NestedInt64(held.Object, "status", "readyReplicas")
		return ready == 0, err
	}))
	everything := options
	everything.Everything = true
	if err := w.uninstall(everything); err == nil || !strings.Contains(err.Error(), "1 objects have a finalizer that only the operator removes, and no replica of the operator in bellerophon-system is ready; start it, or give --force") {
		t.Errorf("it answers %v", err)
	}
	if _, err := w.client.Resource(heroes).Namespace(w.namespace).Get(t.Context(), "pegasus", metav1.GetOptions{}); err != nil {
		t.Errorf("the hero is gone: %v", err)
	}

	everything.Force, everything.Timeout = true, 3*time.Second
	if err := w.uninstall(everything); err == nil || !strings.Contains(err.Error(), "is not gone after 3s: it waits for example.org/mine; run the command again when that has ended") {
		t.Errorf("with the finalizer of another program it answers %v", err)
	}
	_, err = w.client.Resource(heroes).Namespace(w.namespace).Patch(t.Context(), "pegasus", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
	w.must(err)
	everything.Timeout = time.Minute
	w.must(w.uninstall(everything))
	if left := w.left(); len(left) > 0 {
		t.Errorf("these objects of the release are left: %q", left)
	}
	for _, name := range []string{"heroes.stable.bellerophon.io", "sheroes.stable.simple-bellerophon.io"} {
		if _, err := w.client.Resource(definitions).Get(t.Context(), name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("the definition %s is there: %v", name, err)
		}
	}
	w.goes(w.namespace)
}

func TestObjectsOfAnotherOperatorStay(t *testing.T) {
	w := newWorld(t)
	neighbour := options
	neighbour.Namespace, neighbour.Everything = "elsewhere", true
	if err := w.uninstall(neighbour); err == nil || !strings.Contains(err.Error(), "the operator in bellerophon-system works on the same objects, which --everything would delete; uninstall it first, or leave --everything out") {
		t.Errorf("it answers %v", err)
	}
	neighbour.Everything = false
	plan, err := uninstall.Look(t.Context(), w.config, neighbour)
	w.must(err)
	if plan.Changes() {
		t.Errorf("it would do %v", plan.Steps)
	}
	_, err = w.client.Resource(webhooks).Patch(t.Context(), install.Release+"-webhooks."+install.Namespace, types.MergePatchType, []byte(`{"webhooks":null}`), metav1.PatchOptions{})
	w.must(err)
	_, err = w.client.Resource(heroes).Namespace(w.namespace).Patch(t.Context(), "pegasus", types.MergePatchType, []byte(`{"metadata":{"finalizers":["stable.bellerophon.io/last-backup"]}}`), metav1.PatchOptions{})
	w.must(err)
}

func TestOptionsOutOfRangeAreRefused(t *testing.T) {
	for want, change := range map[string]func(*uninstall.Options){
		`--release is "A": `:                      func(o *uninstall.Options) { o.Release = "A" },
		`--namespace is "": `:                     func(o *uninstall.Options) { o.Namespace = "" },
		"--force needs --everything":              func(o *uninstall.Options) { o.Force = true },
		"--timeout is 1ms; allowed is 1s to 1h":   func(o *uninstall.Options) { o.Timeout = time.Millisecond },
		"--timeout is 2h0m0s; allowed is 1s to 1": func(o *uninstall.Options) { o.Timeout = 2 * time.Hour },
	} {
		bad := options
		change(&bad)
		if _, err := uninstall.Look(t.Context(), &rest.Config{}, bad); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("it answers %v, want %q in it", err, want)
		}
	}
}
