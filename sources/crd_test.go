package sources_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/internal/localcluster/clustertest"
	"github.com/bellerophon-io/bellerophon/sources"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset/typed/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
)

// horses is a custom kind on a real cluster.
var horses = schema.GroupVersionResource{Group: "sources.example.org", Version: "v1", Resource: "horses"}

// horse is the part of the kind that the tests read.
type horse struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Wings int `json:"wings"`
	} `json:"spec"`
}

func (h *horse) DeepCopyObject() runtime.Object { copied := *h; return &copied }

type stable struct {
	definitions apiextensions.CustomResourceDefinitionInterface
	horses      dynamic.ResourceInterface
	namespace   string
}

func newStable(t *testing.T) *stable {
	t.Helper()
	config := clustertest.Shared(t).AdminConfig()
	definitions, err := apiextensions.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	objects, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	namespace := clustertest.Namespace(t)
	made := &stable{definitions.CustomResourceDefinitions(), objects.Resource(horses).Namespace(namespace), namespace}
	t.Cleanup(func() { made.uninstall(context.Background(), t) }) // The test's own context has ended when this runs.
	return made
}

// install creates the definition of horses.
func (s *stable) install(t *testing.T) {
	t.Helper()
	define(t, s.definitions, "horses", "Horse", apiextensionsv1.NamespaceScoped)
}

func define(t *testing.T, definitions apiextensions.CustomResourceDefinitionInterface, plural, kind string, scope apiextensionsv1.ResourceScope) {
	t.Helper()
	open := true
	_, err := definitions.Create(t.Context(), &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: plural + "." + horses.Group},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: horses.Group, Scope: scope,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: plural, Singular: strings.ToLower(kind), Kind: kind, ListKind: kind + "List"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1", Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: &open}},
			}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// uninstall deletes the definition with all horses, and waits until it is gone.
func (s *stable) uninstall(ctx context.Context, t *testing.T) {
	t.Helper()
	name := horses.GroupResource().String()
	watching, err := s.definitions.Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + name})
	if err != nil {
		t.Fatal(err)
	}
	defer watching.Stop()
	if err := s.definitions.Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	for event := range watching.ResultChan() {
		if event.Type == watch.Deleted {
			return
		}
	}
	t.Fatal("the watch of the definition has ended")
}

func (s *stable) foal(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		_, err := s.horses.Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": horses.GroupVersion().String(), "kind": "Horse",
			"metadata": map[string]any{"name": name, "labels": map[string]any{"app": "red"}},
			"spec":     map[string]any{"wings": 2, "colour": "white"},
		}}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestAWatchSurvivesTheDeletionOfItsDefinitionAndFollowsTheNewOne(t *testing.T) {
	s := newStable(t)
	status := &sources.Status{}
	kind := kindOf(t, &horse{}, sources.OfKind(horses.GroupVersion().WithKind("Horse")))
	f := watchOn(t, kind, sources.WatchOptions{Status: status})
	f.until("a failure, as there is no definition", func() bool { return len(f.emitted) > 0 })
	s.install(t)
	f.until("the first list", f.holds())
	s.foal(t, "arion", "pegasus")
	f.until("the horses", f.holds("arion", "pegasus"))
	if wings := f.held["pegasus"].(*horse).Spec.Wings; wings != 2 {
		t.Errorf("pegasus has %d wings", wings)
	}
	for round, name := range []string{"chrysaor", "xanthos"} {
		f.emitted = nil
		s.uninstall(t.Context(), t)
		f.until("the loss", f.says("Disconnected"))
		if state := sources.WatchState(status.State.Load()); state != sources.BackingOff {
			t.Errorf("without a definition, the state is %v", state)
		}
		t.Logf("round %d, without a definition: %q, held %d", round, f.emitted, len(f.held))
		f.until("the deletions", f.holds())
		f.emitted = nil
		s.install(t)
		took := f.until("a list of the new kind", f.says("ListEnd"))
		// The bound is the 10 s between attempts, and a moment until the server serves the new
		// kind.
		if took > 12*time.Second {
			t.Errorf("it took %v to list the new kind", took)
		}
		s.foal(t, name)
		f.until("the horse of the new kind", f.holds(name))
		t.Logf("round %d, with the new one: %q after %v", round, f.emitted, took)
	}
}

// The API server sends metadata as protobuf, also for custom kinds.
func TestMetadataComesAsProtobufOfBuiltInAndOfCustomKinds(t *testing.T) {
	s := newStable(t)
	s.install(t)
	ready := watchOn(t, kindOf(t, &horse{}, sources.OfKind(horses.GroupVersion().WithKind("Horse"))), sources.WatchOptions{})
	ready.until("the kind", ready.holds())
	s.foal(t, "arion", "pegasus")
	for name, test := range map[string]struct {
		kind    sources.Kind
		objects []string
		client  dynamic.ResourceInterface
	}{
		"custom": {
			kindOf(t, &sources.Metadata[horse]{}, sources.OfKind(horses.GroupVersion().WithKind("Horse"))),
			[]string{"arion", "pegasus"}, s.horses,
		},
		"built in": {kindOf(t, &sources.Metadata[corev1.ServiceAccount]{}), []string{"default"}, nil},
	} {
		for _, pageSize := range []int{0, 1} {
			f := watchOn(t, test.kind, sources.WatchOptions{Namespaces: []string{s.namespace}, PageSize: pageSize})
			f.until("the list of the "+name+" kind", f.holds(test.objects...))
			for _, line := range f.log.log() {
				if !strings.HasSuffix(line, " as vnd.kubernetes.protobuf") {
					t.Errorf("the %s kind: %s", name, line)
				}
			}
			if test.client == nil {
				continue
			}
			patch := []byte(`{"metadata":{"labels":{"app":"blue"}}}`)
			if pageSize > 0 {
				patch = []byte(`{"metadata":{"labels":{"app":"green"}}}`)
			}
			if _, err := test.client.Patch(t.Context(), "pegasus", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
				t.Fatal(err)
			}
			f.until("the change", func() bool { return f.held["pegasus"].GetLabels()["app"] != "red" && f.says("Applied pegasus")() })
			if managed := f.held["pegasus"].GetManagedFields(); len(managed) > 0 {
				t.Errorf("the managed fields are kept: %v", managed)
			}
		}
	}
}

func TestAWatchFindsAnIrregularPluralAndTheScope(t *testing.T) {
	definitions, err := apiextensions.NewForConfig(clustertest.Shared(t).AdminConfig())
	if err != nil {
		t.Fatal(err)
	}
	define(t, definitions.CustomResourceDefinitions(), "oxen", "Ox", apiextensionsv1.ClusterScoped)
	t.Cleanup(func() {
		if err := definitions.CustomResourceDefinitions().Delete(context.Background(), "oxen."+horses.Group, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	ox := horses.GroupVersion().WithKind("Ox")
	for _, pageSize := range []int{0, 500} {
		kind := kindOf(t, &unstructured.Unstructured{}, sources.OfKind(ox))
		f := watchOn(t, kind, sources.WatchOptions{PageSize: pageSize})
		f.until("the list", f.says("ListEnd"))
		if kind.Resource() != "oxen" || kind.Namespaced() {
			t.Errorf("with pages of %d, the kind is served as %s, namespaced %v", pageSize, kind.Resource(), kind.Namespaced())
		}
	}
}
