// Package manifests applies objects of any kind that a devfile names, and follows them. A watch of a
// kind starts when its first object is applied, so that nothing is watched that no devfile names.
package manifests

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/bellerophon-io/bellerophon/bellerophon/dev/contract"
	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/operators"
	"github.com/bellerophon-io/bellerophon/streams"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/restmapper"
)

const fieldManager = "bellerophon-dev"

// bindings are the groups and versions of service bindings, the preferred one first.
var bindings = []schema.GroupVersionKind{
	{Group: "servicebinding.io", Version: "v1", Kind: "ServiceBinding"},
	{Group: "servicebinding.io", Version: "v1beta1", Kind: "ServiceBinding"},
	{Group: "binding.operators.coreos.com", Version: "v1alpha1", Kind: "ServiceBinding"},
}

// Manifests implements loop.Manifests with a manager. Its methods may be called from any goroutine.
type Manifests struct {
	watches     *controller.Manager // of its own, because a manager watches a kind in one way
	client      dynamic.Interface
	mapper      *restmapper.DeferredDiscoveryRESTMapper
	namespace   string
	application string
	changed     func() // called when an object has changed

	mu       sync.Mutex
	followed map[schema.GroupVersionKind]bool
	known    map[contract.Object]*known
}

// known holds the last apply and the last event of one object.
type known struct {
	sum     [sha256.Size]byte          // of what was applied
	applied *unstructured.Unstructured // the answer
	seen    bool                       // whether the watch has reported the object
	current *unstructured.Unstructured // what the watch reported last; nil if the object is gone
}

// New creates Manifests for an application, which run with a manager. changed is called when an object has changed.
func New(manager *controller.Manager, namespace, application string, logger *slog.Logger, changed func()) (*Manifests, error) {
	config, client := manager.Connection()
	kinds, err := discovery.NewDiscoveryClientForConfigAndClient(config, client)
	if err != nil {
		return nil, fmt.Errorf("connect for the kinds of the cluster: %w", err)
	}
	objects, err := dynamic.NewForConfigAndClient(config, client)
	if err != nil {
		return nil, fmt.Errorf("connect for the devfile's objects: %w", err)
	}
	watches, err := controller.NewManager(config, runtime.NewScheme(), controller.Options{Namespaces: []string{namespace}, Logger: logger})
	if err != nil {
		return nil, fmt.Errorf("connect for changes of the devfile's objects: %w", err)
	}
	none := streams.Create(func(ctx context.Context, _ streams.Sink[types.NamespacedName]) { <-ctx.Done() })
	nothing := func(context.Context, operators.Request) (time.Duration, error) { return 0, nil }
	if err := watches.Add("devfile", nothing, controller.From("nothing", none)); err != nil { // A manager needs a controller to run.
		return nil, fmt.Errorf("watch the devfile's objects: %w", err)
	}
	if err := manager.AddRunnable(controller.Runnable{Name: "devfile", Run: watches.Run}); err != nil {
		return nil, fmt.Errorf("watch the devfile's objects: %w", err)
	}
	return &Manifests{
		watches: watches, client: objects, mapper: restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(kinds)),
		namespace: namespace, application: application, changed: changed,
		followed: map[schema.GroupVersionKind]bool{}, known: map[contract.Object]*known{},
	}, nil
}

// Apply implements loop.Manifests.
func (m *Manifests) Apply(ctx context.Context, owner *corev1.ConfigMap, object *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	resource, mapping, err := m.resource(object.GroupVersionKind(), object.GetNamespace())
	if err != nil {
		return nil, err
	}
	made := object.DeepCopy()
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace && made.GetNamespace() == "" {
		made.SetNamespace(m.namespace)
	}
	labels := made.GetLabels()
	if labels == nil {
		labels = map[string]string{}
	}
	labels[contract.ApplicationLabel] = m.application
	made.SetLabels(labels)
	if made.GetNamespace() == owner.Namespace {
		made.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: owner.Name, UID: owner.UID}})
	}
	encoded, err := made.MarshalJSON()
	if err != nil {
		return nil, fmt.Errorf("encode %s %s: %w", made.GetKind(), made.GetName(), err)
	}
	name, wanted := nameOf(made), sha256.Sum256(encoded)
	if is := m.asApplied(name, wanted); is != nil {
		return is, nil
	}
	applied, err := resource.Apply(ctx, made.GetName(), made, metav1.ApplyOptions{FieldManager: fieldManager, Force: true})
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	held := m.of(name)
	held.sum, held.applied = wanted, applied
	m.mu.Unlock()
	return applied, m.follow(object.GroupVersionKind(), mapping)
}

// asApplied returns an object if it is as it was applied, as far as is known.
func (m *Manifests) asApplied(name contract.Object, wanted [sha256.Size]byte) *unstructured.Unstructured {
	m.mu.Lock()
	defer m.mu.Unlock()
	held := m.of(name)
	switch {
	case held.applied == nil || held.sum != wanted:
		return nil
	case !held.seen:
		return held.applied
	case held.current == nil || held.current.GetUID() != held.applied.GetUID():
		return nil
	case held.applied.GetGeneration() != 0 && held.current.GetGeneration() != held.applied.GetGeneration():
		return nil
	case held.applied.GetGeneration() == 0 && held.current.GetResourceVersion() != held.applied.GetResourceVersion():
		return nil
	}
	return held.current
}

// Binding implements loop.Manifests.
func (m *Manifests) Binding(ctx context.Context, name string) (*unstructured.Unstructured, error) {
	isServed := false
	for _, kind := range bindings {
		resource, mapping, err := m.resource(kind, m.namespace)
		if errors.Is(err, errNoKind) {
			continue
		}
		if err != nil {
			return nil, err
		}
		isServed = true
		of := contract.Object{APIVersion: kind.GroupVersion().String(), Kind: kind.Kind, Namespace: m.namespace, Name: name}
		m.mu.Lock()
		held := m.of(of)
		seen, current := held.seen, held.current
		m.mu.Unlock()
		if seen && current != nil {
			return current, nil
		}
		if err := m.follow(kind, mapping); err != nil {
			return nil, err
		}
		found, err := resource.Get(ctx, name, metav1.GetOptions{})
		if err == nil {
			return found, nil
		}
		if !apierrors.IsNotFound(err) {
			return nil, err
		}
	}
	if !isServed { // The error makes the caller ask again. No event says that a definition is installed.
		return nil, fmt.Errorf("find %s: %w", bindings[0], errNoKind)
	}
	return nil, nil
}

// Delete implements loop.Manifests.
func (m *Manifests) Delete(ctx context.Context, object contract.Object) error {
	version, err := schema.ParseGroupVersion(object.APIVersion)
	if err != nil {
		return fmt.Errorf("read the version of %s %s: %w", object.Kind, object.Name, err)
	}
	resource, _, err := m.resource(version.WithKind(object.Kind), object.Namespace)
	if errors.Is(err, errNoKind) {
		return nil
	}
	if err != nil {
		return err
	}
	found, err := resource.Get(ctx, object.Name, metav1.GetOptions{})
	if err != nil {
		return controller.IgnoreNotFound(err)
	}
	if found.GetLabels()[contract.ApplicationLabel] != m.application {
		return nil
	}
	uid := found.GetUID()
	err = resource.Delete(ctx, object.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
	if controller.IgnoreNotFound(err) != nil {
		return err
	}
	m.mu.Lock()
	delete(m.known, object)
	m.mu.Unlock()
	return nil
}

// errNoKind means that the cluster does not serve a kind.
var errNoKind = errors.New("the cluster does not serve the kind; install its definition, or remove the component from the devfile")

// resource returns the client of a kind.
func (m *Manifests) resource(kind schema.GroupVersionKind, namespace string) (dynamic.ResourceInterface, *meta.RESTMapping, error) {
	mapping, err := m.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if meta.IsNoMatchError(err) { // Its definition may be new.
		m.mapper.Reset()
		mapping, err = m.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	}
	if meta.IsNoMatchError(err) {
		return nil, nil, fmt.Errorf("find %s: %w", kind, errNoKind)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("find %s: %w", kind, err)
	}
	resource := m.client.Resource(mapping.Resource)
	if mapping.Scope.Name() != meta.RESTScopeNameNamespace {
		return resource, mapping, nil
	}
	if namespace == "" {
		namespace = m.namespace
	}
	return resource.Namespace(namespace), mapping, nil
}

// follow watches a kind from now on, by a controller of its own.
func (m *Manifests) follow(kind schema.GroupVersionKind, mapping *meta.RESTMapping) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.followed[kind] {
		return nil
	}
	blank := &unstructured.Unstructured{}
	blank.SetGroupVersionKind(kind)
	options := []controller.InputOption{controller.OfKind(kind), controller.Plural(mapping.Resource.Resource)}
	if mapping.Scope.Name() != meta.RESTScopeNameNamespace {
		options = append(options, controller.ClusterScoped())
	}
	if kind.Kind != bindings[0].Kind { // A binding that the Deployment names may have been made by another program.
		options = append(options, controller.LabelSelector(contract.ApplicationLabel+"="+m.application))
	}
	name := "devfile-" + kind.GroupKind().String()
	note := func(ctx context.Context, request operators.Request) (time.Duration, error) {
		return 0, m.note(ctx, kind, request.NamespacedName)
	}
	if err := m.watches.Add(name, note, controller.For(blank, options...)); err != nil {
		return fmt.Errorf("watch %s: %w", kind, err)
	}
	m.followed[kind] = true
	return nil
}

// note records an object as the watch has reported it.
func (m *Manifests) note(ctx context.Context, kind schema.GroupVersionKind, name types.NamespacedName) error {
	current, err := controller.Get[*unstructured.Unstructured](ctx, m.watches.Client(), name, controller.OfKind(kind))
	if controller.IgnoreNotFound(err) != nil {
		return err
	}
	if err != nil {
		current = nil
	}
	m.mu.Lock()
	held := m.of(contract.Object{APIVersion: kind.GroupVersion().String(), Kind: kind.Kind, Namespace: name.Namespace, Name: name.Name})
	held.seen, held.current = true, current
	m.mu.Unlock()
	m.changed()
	return nil
}

// of returns the entry of an object. m.mu is held.
func (m *Manifests) of(name contract.Object) *known {
	held := m.known[name]
	if held == nil {
		held = &known{}
		m.known[name] = held
	}
	return held
}

func nameOf(object *unstructured.Unstructured) contract.Object {
	return contract.Object{APIVersion: object.GetAPIVersion(), Kind: object.GetKind(), Namespace: object.GetNamespace(), Name: object.GetName()}
}
