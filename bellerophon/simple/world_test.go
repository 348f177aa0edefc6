package simple_test

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	v1 "github.com/bellerophon-io/bellerophon/bellerophon/api/simple/v1"
	"github.com/bellerophon-io/bellerophon/bellerophon/install"
	"github.com/bellerophon-io/bellerophon/bellerophon/owned"
	"github.com/bellerophon-io/bellerophon/bellerophon/simple"
	"github.com/bellerophon-io/bellerophon/cache"
	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/internal/localcluster/clustertest"
	"github.com/bellerophon-io/bellerophon/operators"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

func TestMain(m *testing.M) { clustertest.Main(m) }

// patience bounds every wait. It is far longer than any wait takes.
const patience = 2 * time.Minute

var sheroes = v1.GroupVersion.WithResource("sheroes")

// world is a namespace of the shared cluster with clients of an administrator, and an operator that
// watches the namespace.
type world struct {
	t         *testing.T
	ctx       context.Context
	namespace string
	config    *rest.Config
	core      kubernetes.Interface
	any       dynamic.Interface
	heroes    dynamic.ResourceInterface
	operator  *operator
}

var installOnce sync.Once

// types returns the scheme of all operators. It is not client-go's own, because other goroutines read
// that scheme.
var types = sync.OnceValue(func() *runtime.Scheme {
	types := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{scheme.AddToScheme, v1.AddToScheme} {
		if err := add(types); err != nil {
			panic(err)
		}
	}
	return types
})

// newWorld creates a namespace without an operator.
func newWorld(t *testing.T) *world {
	t.Helper()
	cluster := clustertest.Shared(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	w := &world{t: t, ctx: ctx, namespace: clustertest.Namespace(t), config: cluster.AdminConfig()}
	w.core = must(kubernetes.NewForConfig(w.config))(t)
	w.any = must(dynamic.NewForConfig(w.config))(t)
	w.heroes = w.any.Resource(sheroes).Namespace(w.namespace)
	installOnce.Do(func() { must(install.Operator(ctx, w.config, install.Options{}))(t) })
	// Tests count writes, so wait until the controller manager has written to the new namespace.
	w.await(configMaps, "kube-root-ca.crt", "published", func(object *unstructured.Unstructured) bool { return object != nil })
	return w
}

// newWorldWithOperator creates a namespace with an operator, and waits until it is Current.
func newWorldWithOperator(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	w.operator = w.startOperator()
	if err := w.operator.manager.Cache().Wait(w.ctx, cache.Current); err != nil {
		t.Fatal(err)
	}
	return w
}

func must[T any](value T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

// operator is a running operator.
type operator struct {
	manager *controller.Manager
	errors  chan error // the first 100 failures of sources
	failed  chan error // the first 100 failures of reconciles
	results atomic.Int64
	stop    func()
}

// startOperator starts an operator for the namespace, as its ServiceAccount.
func (w *world) startOperator() *operator {
	w.t.Helper()
	return w.startOperatorAs(w.operatorConfig())
}

// operatorConfig installs what an operator needs, and returns the config of its ServiceAccount.
func (w *world) operatorConfig() *rest.Config {
	w.t.Helper()
	installed := must(install.Operator(w.ctx, w.config, install.Options{}))(w.t)
	return must(installed.Config(w.t.Context(), w.config))(w.t)
}

func (w *world) startOperatorAs(config *rest.Config) *operator {
	w.t.Helper()
	return w.startOperatorWith(config, func(*controller.Options) {})
}

// beside is a controller that owns kinds of children too.
type beside struct {
	fields owned.Fields
	addTo  func(*controller.Manager, *owned.Kinds) error
}

// startOperatorWith starts an operator whose options are changed by a function, with other controllers
// in its manager.
func (w *world) startOperatorWith(config *rest.Config, change func(*controller.Options), others ...beside) *operator {
	w.t.Helper()
	o := &operator{errors: make(chan error, 100), failed: make(chan error, 100)}
	options := controller.Options{
		DetectMutations: true,
		Namespaces:      []string{w.namespace},
		Logger:          slog.New(slog.NewTextHandler(w.t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn})),
		OnResult: func(result operators.Result) {
			o.results.Add(1)
			if result.Err != nil {
				select {
				case o.failed <- result.Err:
				default:
				}
			}
		},
		OnError: func(err error) {
			select {
			case o.errors <- err:
			default:
			}
		},
	}
	change(&options)
	o.manager = must(controller.NewManager(config, types(), options))(w.t)
	fields := []owned.Fields{simple.Fields()}
	for _, other := range others {
		fields = append(fields, other.fields)
	}
	kinds := owned.KindsOf(fields...)
	if err := simple.AddTo(o.manager, kinds); err != nil {
		w.t.Fatal(err)
	}
	for _, other := range others {
		if err := other.addTo(o.manager, kinds); err != nil {
			w.t.Fatal(err)
		}
	}
	group := lifecycle.New(context.Background())
	group.Go("operator", o.manager.Run)
	o.stop = sync.OnceFunc(func() {
		group.Stop()
		if err := group.Wait(); err != nil {
			w.t.Errorf("the operator failed: %v", err)
		}
	})
	w.t.Cleanup(o.stop)
	return o
}

// hero returns a sample object.
func (w *world) hero(name string, replicas int64, spec ...string) *unstructured.Unstructured {
	fields := map[string]any{"winged_horse_name": "pegasus", "replicas": replicas}
	for i := 0; i+1 < len(spec); i += 2 {
		fields[spec[i]] = spec[i+1]
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": v1.GroupVersion.String(), "kind": "BellerophonSimple",
		"metadata": map[string]any{"name": name, "namespace": w.namespace},
		"spec":     fields,
	}}
}

func (w *world) create(object *unstructured.Unstructured) {
	w.t.Helper()
	must(w.heroes.Create(w.ctx, object, metav1.CreateOptions{}))(w.t)
}

// change changes fields of an object's spec, as kubectl patch does.
func (w *world) change(name, patch string) {
	w.t.Helper()
	must(w.heroes.Patch(w.ctx, name, "application/merge-patch+json", []byte(patch), metav1.PatchOptions{}))(w.t)
}

// await waits until an object of a resource meets a condition. The condition gets nil if the object
// does not exist.
func (w *world) await(resource schema.GroupVersionResource, name, what string, is func(*unstructured.Unstructured) bool) {
	w.t.Helper()
	client := w.any.Resource(resource).Namespace(w.namespace)
	// A watch alone would not report that the object does not exist, so list first.
	list := must(client.List(w.ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + name}))(w.t)
	var last *unstructured.Unstructured
	if len(list.Items) > 0 {
		last = &list.Items[0]
	}
	if is(last) {
		return
	}
	watcher := must(client.Watch(w.ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + name, ResourceVersion: list.GetResourceVersion()}))(w.t)
	defer watcher.Stop()
	for event := range watcher.ResultChan() {
		object, ok := event.Object.(*unstructured.Unstructured)
		if !ok {
			w.t.Fatalf("watching %s %s: %v", resource.Resource, name, event.Object)
		}
		last = object
		if event.Type == "DELETED" {
			last = nil
		}
		if is(last) {
			return
		}
	}
	w.t.Fatalf("%s %s: not %s within %v; it is %v", resource.Resource, name, what, patience, last)
}

// awaitReady waits until the current generation of an object is Ready with a number of servers.
func (w *world) awaitReady(name string, servers int32) *v1.BellerophonSimple {
	w.t.Helper()
	return w.awaitCondition(name, v1.ConditionReady, func(hero *v1.BellerophonSimple, _ *metav1.Condition) bool {
		return hero.Status.ReadyReplicas == servers
	})
}

// awaitCondition waits until a condition is true for the current generation.
func (w *world) awaitCondition(name, condition string, also func(*v1.BellerophonSimple, *metav1.Condition) bool) *v1.BellerophonSimple {
	w.t.Helper()
	var hero *v1.BellerophonSimple
	w.await(sheroes, name, condition, func(object *unstructured.Unstructured) bool {
		if object == nil {
			return false
		}
		hero = heroOf(w.t, object)
		found := meta.FindStatusCondition(hero.Status.Conditions, condition)
		return found != nil && found.Status == metav1.ConditionTrue && found.ObservedGeneration == hero.Generation &&
			hero.Status.ObservedGeneration == hero.Generation && also(hero, found)
	})
	return hero
}

func heroOf(t *testing.T, object *unstructured.Unstructured) *v1.BellerophonSimple {
	t.Helper()
	hero := &v1.BellerophonSimple{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, hero); err != nil {
		t.Fatal(err)
	}
	return hero
}

// writes returns the number of successful writes of the kinds that only the operator writes, from
// the API server's own metrics.
func (w *world) writes() map[string]float64 {
	w.t.Helper()
	client := must(rest.HTTPClientFor(w.config))(w.t)
	request := must(http.NewRequestWithContext(w.ctx, http.MethodGet, w.config.Host+"/metrics", nil))(w.t)
	answer := must(client.Do(request))(w.t)
	defer func() { _ = answer.Body.Close() }()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families := must(parser.TextToMetricFamilies(answer.Body))(w.t)
	counts := map[string]float64{}
	for _, metric := range families["apiserver_request_total"].GetMetric() {
		labels := map[string]string{}
		for _, label := range metric.GetLabel() {
			labels[label.GetName()] = label.GetValue()
		}
		what := strings.TrimSuffix(labels["resource"]+"/"+labels["subresource"], "/")
		switch labels["verb"] {
		case "POST", "PUT", "PATCH", "APPLY":
		default:
			continue
		}
		if !strings.HasPrefix(labels["code"], "2") {
			continue // Such as writes of the controller manager in namespaces that are being deleted.
		}
		switch what {
		case "sheroes", "sheroes/status", "configmaps", "services", "statefulsets":
			counts[what] += metric.GetCounter().GetValue()
		}
	}
	return counts
}
