package states_test

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/cache"
	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/faults/states"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/internal/localcluster/clustertest"
	"github.com/bellerophon-io/bellerophon/operators"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

func TestMain(m *testing.M) { clustertest.Main(m) }

// gadgets is a kind with a nested field, a map, and a rule.
const gadgets = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: gadgets.example.org}
spec:
  group: example.org
  names: {kind: Gadget, listKind: GadgetList, plural: gadgets, singular: gadget}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            required: [color]
            properties:
              color: {type: string, enum: [red, blue]}
              notes: {type: object, additionalProperties: {type: string, maxLength: 3}}
              store:
                type: object
                required: [size]
                properties:
                  size: {type: integer, x-kubernetes-validations: [{rule: self > 0 && self < 4}]}
          status: {type: object, x-kubernetes-preserve-unknown-fields: true}
`

var (
	gadget     = schema.GroupVersionKind{Group: "example.org", Version: "v1", Kind: "Gadget"}
	configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	crds       = apiextensionsv1.SchemeGroupVersion.WithResource("customresourcedefinitions")
)

// keeper is an operator of gadgets: it copies the spec into a ConfigMap. Each flag is a bug.
type keeper struct {
	client dynamic.Interface

	keeps    bool // removes no key
	silent   bool // does not report a size that it cannot have
	messy    bool // creates a copy without an owner
	restless bool // writes again and again
}

func (k keeper) reconcile(ctx context.Context, request operators.Request) (time.Duration, error) {
	ours := k.client.Resource(gadget.GroupVersion().WithResource("gadgets")).Namespace(request.Namespace)
	held, err := ours.Get(ctx, request.Name, metav1.GetOptions{})
	if err != nil || held.GetDeletionTimestamp() != nil {
		return 0, controller.IgnoreNotFound(err)
	}
	data := map[string]string{}
	color, _, _ := unstructured.NestedString(held.Object, "spec", "color")
	data["color"] = color
	if size, has, _ := unstructured.NestedInt64(held.Object, "spec", "store", "size"); has {
		data["size"] = fmt.Sprint(size)
	}
	notes, _, _ := unstructured.NestedStringMap(held.Object, "spec", "notes")
	for name, note := range notes {
		data["note-"+name] = note
	}
	if data["size"] == "3" { // The schema allows it, and the operator cannot have it.
		if k.silent {
			return 0, nil
		}
		return 0, k.report(ctx, ours, held, "False", "spec.store.size: 3 is more than there is")
	}
	if err := k.write(ctx, held, request.Name, data); apierrors.IsInvalid(err) { // A key with a space.
		return 0, k.report(ctx, ours, held, "False", "spec.notes: "+err.Error())
	} else if err != nil {
		return 0, err
	}
	if err := k.report(ctx, ours, held, "True", ""); err != nil {
		return 0, err
	}
	if k.restless {
		return time.Second, nil
	}
	return 0, nil
}

// write creates or updates the ConfigMap.
func (k keeper) write(ctx context.Context, owner *unstructured.Unstructured, name string, data map[string]string) error {
	maps := k.client.Resource(configMaps).Namespace(owner.GetNamespace())
	want := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap"}}
	want.SetName(name)
	want.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(owner, gadget)})
	held, err := maps.Get(ctx, name, metav1.GetOptions{})
	if k.keeps && err == nil {
		before, _, _ := unstructured.NestedStringMap(held.Object, "data")
		for key, value := range before {
			if data[key] == "" {
				data[key] = value
			}
		}
	}
	if err := unstructured.SetNestedStringMap(want.Object, data, "data"); err != nil {
		return err
	}
	switch {
	case apierrors.IsNotFound(err):
		_, err = maps.Create(ctx, want, metav1.CreateOptions{})
	case err == nil:
		_, err = maps.Update(ctx, want, metav1.UpdateOptions{})
	}
	if k.messy && data["color"] == "blue" {
		want.SetName(name + "-copy")
		want.SetOwnerReferences(nil)
		if _, err := maps.Create(ctx, want, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
	}
	return err
}

func (k keeper) report(ctx context.Context, ours dynamic.ResourceInterface, held *unstructured.Unstructured, ready, message string) error {
	held.Object["status"] = map[string]any{
		"observedGeneration": held.GetGeneration(),
		"conditions":         []any{map[string]any{"type": "Ready", "status": ready, "reason": "Kept", "message": message}},
	}
	_, err := ours.UpdateStatus(ctx, held, metav1.UpdateOptions{})
	return controller.IgnoreNotFound(err)
}

// start runs the operator until the function that it returns is called.
func (k keeper) start(t *testing.T, config *rest.Config) (stop func()) {
	t.Helper()
	manager, err := controller.NewManager(config, scheme.Scheme, controller.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	if err := manager.Add("keeper", k.reconcile, controller.For(&unstructured.Unstructured{}, controller.OfKind(gadget))); err != nil {
		t.Fatal(err)
	}
	group := lifecycle.New(context.Background())
	group.Go("operator", manager.Run)
	stop = sync.OnceFunc(func() {
		group.Stop()
		if err := group.Wait(); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	if err := manager.Cache().Wait(t.Context(), cache.Current); err != nil {
		t.Fatal(err)
	}
	return stop
}

// install creates the definition of gadgets, and waits until it is served.
func install(t *testing.T, client dynamic.Interface) {
	t.Helper()
	content := map[string]any{}
	if err := yaml.Unmarshal([]byte(gadgets), &content); err != nil {
		t.Fatal(err)
	}
	made, err := client.Resource(crds).Create(t.Context(), &unstructured.Unstructured{Object: content}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	watcher, err := client.Resource(crds).Watch(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=" + made.GetName()})
	if err != nil {
		t.Fatal(err)
	}
	defer watcher.Stop()
	for event := range watcher.ResultChan() {
		if strings.Contains(fmt.Sprint(event.Object), "status:True type:Established") {
			return
		}
	}
	t.Fatal("the definition is not served")
}

func TestAGoodOperatorHasNoProblemsAndABadOneHasEach(t *testing.T) {
	config := clustertest.Shared(t).AdminConfig()
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	install(t, client)
	definition, err := states.Definition(t.Context(), config, "gadgets.example.org")
	if err != nil {
		t.Fatal(err)
	}
	subject := states.Subject{Config: config, Definition: definition, Children: []schema.GroupVersionResource{configMaps}}
	options := states.Options{
		Walks: 24, Workers: 8, Patience: 4 * time.Second, Quiet: 500 * time.Millisecond, Window: 2 * time.Second,
		Journal: filepath.Join(t.TempDir(), "journal"),
	}

	stop := keeper{client: client}.start(t, config)
	report, err := states.Explore(t.Context(), subject, options)
	if err != nil {
		t.Fatal(err)
	}
	for _, problem := range report.Problems {
		t.Errorf("the good operator: %s", problem)
	}
	if report.Fields != 3 || report.Walks != 24 || report.Refused < 10 || report.Misuses <= report.Refused {
		t.Errorf("the report is %+v", report)
	}
	again := options
	again.Walks, again.Slice = 26, time.Hour
	if report, err = states.Explore(t.Context(), subject, again); err != nil || report.Walks != 26 || len(report.Problems) > 0 {
		t.Errorf("the second slice: %+v, %v", report, err)
	}
	stop()

	keeper{client, true, true, true, true}.start(t, config)
	options.Journal, options.Walks, options.Patience = "", 14, 2*time.Second
	if report, err = states.Explore(t.Context(), subject, options); err != nil {
		t.Fatal(err)
	}
	for oracle, part := range map[states.Oracle]string{
		states.EndsAsFresh:   "ConfigMap subject: data.note-",
		states.AnswersMisuse: "spec.store.size=3",
		states.LeavesNothing: "ConfigMap subject-copy is left",
		states.StaysQuiet:    "writes of configmaps",
	} {
		if !slices.ContainsFunc(report.Problems, func(p states.Problem) bool {
			return p.Oracle == oracle && strings.Contains(p.String(), part)
		}) {
			t.Errorf("no problem of %q names %q; the problems are %q", oracle, part, report.Problems)
		}
	}
}

func TestADefinitionThatDoesNotExistIsAnErrorWithItsName(t *testing.T) {
	config := clustertest.Shared(t).AdminConfig()
	_, err := states.Definition(t.Context(), config, "nothing.example.org")
	if !apierrors.IsNotFound(err) || !strings.Contains(err.Error(), "nothing.example.org") {
		t.Errorf("the error is %v", err)
	}
}
