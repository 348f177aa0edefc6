package controller_test

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/cache"
	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/internal/localcluster/clustertest"
	"github.com/bellerophon-io/bellerophon/operators"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset/typed/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

// horses is a custom resource of the real cluster.
var horses = schema.GroupVersionResource{Group: "controller.example.org", Version: "v1", Resource: "horses"}

type horse struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
}

func (h *horse) DeepCopyObject() runtime.Object { copied := *h; return &copied }

// wire counts requests and open watches, by resource.
type wire struct {
	next  http.RoundTripper
	mu    sync.Mutex
	asked map[string]int
	open  map[string]int
}

func (w *wire) RoundTrip(request *http.Request) (*http.Response, error) {
	resource := request.URL.Path[strings.LastIndex(request.URL.Path, "/")+1:]
	w.count(w.asked, resource, 1)
	answer, err := w.next.RoundTrip(request)
	if err == nil && request.URL.Query().Get("watch") != "" {
		w.count(w.open, resource, 1)
		answer.Body = &counted{answer.Body, sync.OnceFunc(func() { w.count(w.open, resource, -1) })}
	}
	return answer, err
}

func (w *wire) count(in map[string]int, resource string, more int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	in[resource] += more
}

func (w *wire) of(in map[string]int, resource string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return in[resource]
}

// counted is the body of a watch. It calls closed when it is closed.
type counted struct {
	io.ReadCloser
	closed func()
}

func (c *counted) Close() error {
	c.closed()
	return c.ReadCloser.Close()
}

// stable reaches horses, their definition and config maps in the real cluster.
type stable struct {
	definitions apiextensions.CustomResourceDefinitionInterface
	horses      dynamic.ResourceInterface
	configs     dynamic.ResourceInterface
}

func newStable(t *testing.T, config *rest.Config, namespace string) *stable {
	t.Helper()
	definitions, err := apiextensions.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	objects, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return &stable{
		definitions.CustomResourceDefinitions(),
		objects.Resource(horses).Namespace(namespace),
		objects.Resource(corev1.SchemeGroupVersion.WithResource("configmaps")).Namespace(namespace),
	}
}

// change changes the definition of horses with do, and waits for the first watch event for which
// until returns true.
func (s *stable) change(ctx context.Context, do func(name string) error, until func(watch.Event) bool) error {
	name := horses.GroupResource().String()
	watching, err := s.definitions.Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + name})
	if err != nil {
		return err
	}
	defer watching.Stop()
	if err := do(name); err != nil {
		return err
	}
	for event := range watching.ResultChan() {
		if until(event) {
			return nil
		}
	}
	return context.Cause(ctx)
}

func (s *stable) install(ctx context.Context) error {
	open := true
	return s.change(ctx, func(name string) error {
		_, err := s.definitions.Create(ctx, &apiextensionsv1.CustomResourceDefinition{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: apiextensionsv1.CustomResourceDefinitionSpec{
				Group: horses.Group, Scope: apiextensionsv1.NamespaceScoped,
				Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "horses", Singular: "horse", Kind: "Horse", ListKind: "HorseList"},
				Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
					Name: "v1", Served: true, Storage: true,
					Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: &open}},
				}},
			},
		}, metav1.CreateOptions{})
		return err
	}, func(event watch.Event) bool {
		definition, is := event.Object.(*apiextensionsv1.CustomResourceDefinition)
		return is && slices.ContainsFunc(definition.Status.Conditions, func(of apiextensionsv1.CustomResourceDefinitionCondition) bool {
			return of.Type == apiextensionsv1.Established && of.Status == apiextensionsv1.ConditionTrue
		})
	})
}

// uninstall deletes the definition and with it all horses.
func (s *stable) uninstall(ctx context.Context) error {
	return s.change(ctx,
		func(name string) error { return s.definitions.Delete(ctx, name, metav1.DeleteOptions{}) },
		func(event watch.Event) bool { return event.Type == watch.Deleted })
}

func (s *stable) create(ctx context.Context, of dynamic.ResourceInterface, kind, version, name string) error {
	_, err := of.Create(ctx, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": version, "kind": kind, "metadata": map[string]any{"name": name},
	}}, metav1.CreateOptions{})
	return err
}

func TestAControllerOfACustomKindComesAndGoesWithItsDefinition(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	admin, namespace := clustertest.Shared(t).AdminConfig(), clustertest.Namespace(t)
	s := newStable(t, admin, namespace)
	counts := &wire{asked: map[string]int{}, open: map[string]int{}}
	config := rest.CopyConfig(admin)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { counts.next = next; return counts })
	results := make(chan string, 100)
	manager, err := controller.NewManager(config, scheme.Scheme, controller.Options{
		Namespaces: []string{namespace},
		Logger:     slog.New(slog.DiscardHandler),
		OnError:    func(error) {},
		OnResult:   func(result operators.Result) { results <- result.Controller + "/" + result.Name },
	})
	must(err)
	reconciled := func(want string) {
		t.Helper()
		for {
			select {
			case got := <-results:
				if got == want {
					return
				}
			case <-ctx.Done():
				t.Fatalf("%s was not reconciled", want)
			}
		}
	}
	ofHorses := controller.For(&horse{}, controller.OfKind(horses.GroupVersion().WithKind("Horse")))
	must(manager.Add("configs", nothing, ofConfigs))
	group := lifecycle.New(ctx)
	group.Go("manager", manager.Run)
	must(manager.Cache().Wait(ctx, cache.Current))

	kind := horses.GroupVersion().WithKind("Horse").GroupKind()
	must(s.install(ctx))
	must(manager.Add("first", nothing, ofHorses))
	must(manager.Cache().Wait(ctx, cache.Current, kind)) // A kind that is Current is served.
	must(s.create(ctx, s.horses, "Horse", "controller.example.org/v1", "arion"))
	reconciled("first/arion")
	must(manager.Add("second", nothing, ofHorses))
	reconciled("second/arion")
	if open := counts.of(counts.open, "horses"); open != 1 {
		t.Errorf("two controllers have %d watches", open)
	}
	must(manager.Remove(ctx, "second"))
	must(s.create(ctx, s.horses, "Horse", "controller.example.org/v1", "pegasus"))
	reconciled("first/pegasus")

	both := lifecycle.New(ctx)
	both.Go("uninstall", s.uninstall)
	both.Go("remove", func(ctx context.Context) error { return manager.Remove(ctx, "first") })
	must(both.Wait())
	if counts.of(counts.open, "horses") != 0 || manager.Cache().Store(kind) != nil {
		t.Errorf("%d watches are left, and the store %v", counts.of(counts.open, "horses"), manager.Cache().Store(kind))
	}
	asked := counts.of(counts.asked, "horses")
	must(manager.Cache().Wait(ctx, cache.Settled))
	must(s.install(ctx))
	must(s.create(ctx, s.configs, "ConfigMap", "v1", "mark"))
	reconciled("configs/mark")
	if now := counts.of(counts.asked, "horses"); now != asked {
		t.Errorf("after the removal the server was asked %d times for horses", now-asked)
	}

	must(manager.Add("first", nothing, ofHorses))
	must(manager.Cache().Wait(ctx, cache.Current, kind))
	must(s.create(ctx, s.horses, "Horse", "controller.example.org/v1", "chrysaor"))
	reconciled("first/chrysaor")
	must(s.uninstall(ctx))
	must(manager.Remove(ctx, "first"))
	if open := counts.of(counts.open, "horses") + counts.of(counts.open, "configmaps"); open != 1 {
		t.Errorf("%d watches are open, want one of config maps", open)
	}
	group.Stop()
	must(group.Wait())
}
