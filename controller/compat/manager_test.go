package compat_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/cache"
	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/controller/compat"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/internal/localcluster/clustertest"
	"github.com/bellerophon-io/bellerophon/operators"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	ctrlcontroller "sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// heroes is an operator as a user of controller-runtime writes it: it makes a Secret for each ConfigMap that
// has the label hero, and counts those with its color.
type heroes struct {
	client.Client
	events <-chan event.GenericEvent
	inform func(ctx context.Context, hero *corev1.ConfigMap) error // called first in each reconcile; nil for nothing

	mu    sync.Mutex
	calls map[string]int
}

func (h *heroes) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	h.mu.Lock()
	h.calls[request.Name]++
	h.mu.Unlock()
	hero := &corev1.ConfigMap{}
	if err := h.Get(ctx, request.NamespacedName, hero); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if h.inform != nil {
		if err := h.inform(ctx, hero); err != nil {
			return ctrl.Result{}, err
		}
	}
	same := &corev1.ConfigMapList{}
	if err := h.List(ctx, same, client.InNamespace(hero.Namespace), client.MatchingFields{"owner": hero.Data["color"]}); err != nil {
		return ctrl.Result{}, err
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: hero.Namespace, Name: hero.Name}}
	_, err := ctrl.CreateOrUpdate(ctx, h, secret, func() error {
		metav1.SetMetaDataLabel(&secret.ObjectMeta, "same", fmt.Sprint(len(same.Items))) // A recording hides values of the data.
		return ctrl.SetControllerReference(hero, secret, h.Scheme())
	})
	return ctrl.Result{}, err
}

// SetupWithManager uses what a builder offers.
func (h *heroes) SetupWithManager(mgr ctrl.Manager) error {
	err := mgr.GetFieldIndexer().IndexField(context.Background(), &corev1.ConfigMap{}, "owner", func(object client.Object) []string {
		return []string{object.(*corev1.ConfigMap).Data["color"]}
	})
	labelled, labelErr := predicate.LabelSelectorPredicate(metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "hero", Operator: metav1.LabelSelectorOpExists}}})
	late := handler.Funcs{CreateFunc: func(_ context.Context, made event.CreateEvent, queue queue) {
		if name, has := made.Object.GetLabels()["late"]; has {
			queue.AddAfter(reconcile.Request{NamespacedName: types.NamespacedName{Namespace: made.Object.GetNamespace(), Name: name}}, 50*time.Millisecond)
		}
	}}
	return errors.Join(err, labelErr, ctrl.NewControllerManagedBy(mgr).
		For(&corev1.ConfigMap{}, builder.WithPredicates(labelled)).
		Owns(&corev1.Secret{}).
		Watches(&corev1.Namespace{}, handler.EnqueueRequestsFromMapFunc(func(_ context.Context, object client.Object) []reconcile.Request {
			return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: object.GetName(), Name: object.GetLabels()["chief"]}}}
		}), builder.WithPredicates(predicate.LabelChangedPredicate{})).
		Watches(&corev1.ServiceAccount{}, late, builder.OnlyMetadata).
		WatchesRawSource(source.Channel(h.events, &handler.EnqueueRequestForObject{})).
		WithOptions(ctrlcontroller.Options{MaxConcurrentReconciles: 2}).
		Complete(h))
}

// options are options of controller-runtime that open no port, for managers that come and go.
func options() ctrl.Options {
	return ctrl.Options{
		Metrics: metricsserver.Options{BindAddress: "0"}, HealthProbeBindAddress: "0",
		Controller: config.Controller{SkipNameValidation: new(true)}, // Names of controllers are unique in a process.
	}
}

// start starts a manager, and stops it at the end of the test.
func start(t *testing.T, mgr manager.Manager) {
	t.Helper()
	group := lifecycle.New(t.Context())
	group.Go("manager", mgr.Start)
	t.Cleanup(func() {
		group.Stop()
		if err := group.Wait(); err != nil {
			t.Error(err)
		}
	})
}

func TestAnOperatorRunsUnchangedOnTheManager(t *testing.T) {
	namespace := clustertest.Namespace(t)
	var mu sync.Mutex
	writes := map[string]int{}
	mgr, err := compat.NewManager(clustertest.Shared(t).AdminConfig(), options(), controller.Options{OnResult: func(result operators.Result) {
		mu.Lock()
		defer mu.Unlock()
		for _, write := range result.Writes {
			writes[write.Verb+" "+write.Key.Kind+" "+write.Key.Name]++
		}
	}})
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(err)
	events := make(chan event.GenericEvent)
	operator := &heroes{Client: mgr.GetClient(), events: events, calls: map[string]int{}}
	must(operator.SetupWithManager(mgr))
	ran := make(chan struct{})
	must(mgr.Add(manager.RunnableFunc(func(ctx context.Context) error { close(ran); <-ctx.Done(); return nil })))
	must(mgr.AddReadyzCheck("ready", func(*http.Request) error { return nil }))
	api := mgr.GetAPIReader()
	start(t, mgr)
	<-ran
	levels := mgr.Bellerophon().Cache()
	settled := func() {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		must(levels.Wait(ctx, cache.Settled))
	}
	must(levels.Wait(t.Context(), cache.Current))
	c := mgr.GetClient()
	hero := func(name string) *corev1.ConfigMap {
		return &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"hero": "yes"}}, Data: map[string]string{"color": "red"},
		}
	}
	called := func(name string) int {
		operator.mu.Lock()
		defer operator.mu.Unlock()
		return operator.calls[name]
	}
	become := func(what, want string, now func() string) {
		t.Helper()
		deadline := time.Now().Add(10 * time.Second)
		for now() != want {
			if time.Now().After(deadline) {
				t.Fatalf("%s is %q, want %q", what, now(), want)
			}
			<-time.After(5 * time.Millisecond)
		}
	}
	sameAs := func(name string) func() string {
		return func() string {
			secret := &corev1.Secret{}
			if err := api.Get(t.Context(), types.NamespacedName{Namespace: namespace, Name: name}, secret); err != nil {
				return ""
			}
			return secret.Labels["same"]
		}
	}
	must(c.Create(t.Context(), hero("a")))
	become("the Secret of a", "1", sameAs("a"))
	other := hero("other")
	other.Labels = nil
	must(c.Create(t.Context(), other)) // It has the color, and no label.
	must(c.Create(t.Context(), hero("b")))
	become("the Secret of b", "3", sameAs("b"))
	settled()
	if called("other") > 0 {
		t.Error("an object that the predicate leaves out was reconciled")
	}
	before := called("a")
	must(c.Delete(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "a"}}))
	become("the Secret of a after its deletion", "3", sameAs("a"))
	settled()
	if called("a") == before {
		t.Error("the owner was not called")
	}
	expect := func(what, name string, do func()) {
		t.Helper()
		before := called(name)
		do()
		become(what, "called", func() string {
			if called(name) > before {
				return "called"
			}
			return "not called"
		})
		settled()
	}
	expect("a generic event", "a", func() { events <- event.GenericEvent{Object: hero("a")} })
	expect("a delayed request", "b", func() {
		must(c.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "x", Labels: map[string]string{"late": "b"}}}))
	})
	expect("a cluster-scoped object", "chief", func() {
		of := &corev1.Namespace{}
		must(c.Get(t.Context(), types.NamespacedName{Name: namespace}, of))
		of.Labels["chief"] = "chief"
		must(c.Update(t.Context(), of))
	})
	mu.Lock()
	defer mu.Unlock()
	if writes["create Secret a"] != 2 || writes["create Secret b"] != 1 {
		t.Errorf("the attempts record the writes %v", writes)
	}
}

func TestWhatCannotBeSupportedIsAnErrorThatSaysSo(t *testing.T) {
	connection := clustertest.Shared(t).AdminConfig()
	made := func(change func(*ctrl.Options)) error {
		given := options()
		change(&given)
		_, err := compat.NewManager(connection, given, controller.Options{})
		return err
	}
	for want, err := range map[string]error{
		"NewCache and NewClient are not supported": made(func(o *ctrl.Options) { o.NewCache = ctrlcache.New }),
		"Cache.DefaultFieldSelector":               made(func(o *ctrl.Options) { o.Cache.DefaultFieldSelector = fields.Everything() }),
		"Cache.ByObject":                           made(func(o *ctrl.Options) { o.Cache.ByObject = map[client.Object]ctrlcache.ByObject{&corev1.Pod{}: {}} }),
		`has options for "a"`: made(func(o *ctrl.Options) {
			o.Cache.DefaultNamespaces = map[string]ctrlcache.Config{"a": {FieldSelector: fields.Everything()}}
		}),
		"Client.HTTPClient":   made(func(o *ctrl.Options) { o.Client.HTTPClient = http.DefaultClient }),
		"Client.Cache.Reader": made(func(o *ctrl.Options) { o.Client.Cache = &client.CacheOptions{Reader: struct{ client.Reader }{}} }),
		"Workers is 5000": func() error {
			_, err := compat.NewManager(connection, options(), controller.Options{Workers: 5000})
			return err
		}(),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %v, want one that contains %q", err, want)
		}
	}
	mgr, err := compat.NewManager(connection, options(), controller.Options{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = ctrlcontroller.NewTyped("strings", mgr, ctrlcontroller.TypedOptions[string]{
		Reconciler: reconcile.TypedFunc[string](func(context.Context, string) (reconcile.Result, error) { return reconcile.Result{}, nil }),
	})
	if err == nil || !strings.Contains(err.Error(), "requests of type reconcile.Request only") {
		t.Errorf("a controller with other requests returns %v", err)
	}
	informer, err := mgr.GetCache().GetInformer(t.Context(), &corev1.Pod{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{}); err == nil || !strings.Contains(err.Error(), "only the sources of a controller have handlers") {
		t.Errorf("a handler outside of a controller returns %v", err)
	}
	by := func(client.Object) []string { return nil }
	if err := errors.Join(mgr.GetFieldIndexer().IndexField(t.Context(), &corev1.Pod{}, "a", by)); err != nil {
		t.Error(err)
	}
	if err := mgr.GetFieldIndexer().IndexField(t.Context(), &corev1.Pod{}, "a", by); err == nil {
		t.Error("an index is added twice")
	}
	still := reconcile.Func(func(context.Context, reconcile.Request) (reconcile.Result, error) { return reconcile.Result{}, nil })
	if _, err := ctrlcontroller.New("watches nothing", mgr, ctrlcontroller.Options{Reconciler: still}); err != nil {
		t.Fatal(err)
	}
	if err := mgr.Start(t.Context()); err == nil || !strings.Contains(err.Error(), "watches no kind") {
		t.Errorf("a controller without a kind ends with %v", err)
	}
}

// TestWatchesOfARunningControllerAreRefused adds a watch too late.
func TestWatchesOfARunningControllerAreRefused(t *testing.T) {
	mgr, err := compat.NewManager(clustertest.Shared(t).AdminConfig(), options(), controller.Options{Namespaces: []string{clustertest.Namespace(t)}})
	if err != nil {
		t.Fatal(err)
	}
	still := reconcile.Func(func(context.Context, reconcile.Request) (reconcile.Result, error) { return reconcile.Result{}, nil })
	made, err := ctrl.NewControllerManagedBy(mgr).Named("late").For(&corev1.ConfigMap{}).Build(still)
	if err != nil {
		t.Fatal(err)
	}
	start(t, mgr)
	if err := mgr.Bellerophon().Cache().Wait(t.Context(), cache.Current); err != nil {
		t.Fatal(err)
	}
	kind := source.Kind(mgr.GetCache(), client.Object(&corev1.Secret{}), handler.EventHandler(&handler.EnqueueRequestForObject{}))
	err = made.Watch(kind)
	if err == nil {
		err = kind.WaitForSync(t.Context())
	}
	if err == nil || !strings.Contains(err.Error(), "call Watch before the manager starts") {
		t.Errorf("it returns %v", err)
	}
	if err := mgr.GetFieldIndexer().IndexField(t.Context(), &corev1.Secret{}, "a", nil); err == nil || !strings.Contains(err.Error(), "before the manager starts") {
		t.Errorf("an index that comes late returns %v", err)
	}
	if !slices.Contains([]bool{true}, mgr.GetCache().WaitForCacheSync(t.Context())) {
		t.Error("the cache does not sync")
	}
}
