// Package install installs the operator's resource definitions and permissions into a cluster. Both
// come from the operator's Helm chart, so there is only one source for them. The package also
// creates the credentials of the operator's ServiceAccount.
package install

import (
	"context"
	"fmt"
	"slices"

	"github.com/bellerophon-io/bellerophon/bellerophon/render"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
)

// The namespace of the operator's ServiceAccount, and the Helm release that names it.
const (
	Namespace = "bellerophon-system"
	Release   = "bellerophon"
)

const fieldManager = "bellerophon-install"

var crdResource = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// Installation is the result of Operator.
type Installation struct {
	client  dynamic.Interface
	mapper  meta.RESTMapper
	created []*unstructured.Unstructured // objects that did not exist before, in order
	account string                       // the name of the ServiceAccount
}

// Options says which operator is installed. The zero value is for one that the caller runs, and that watches all
// namespaces.
type Options struct {
	WatchNamespace string // the only namespace that it watches; empty for all
	Heroes         bool   // it also works on the kind Bellerophon
	Deploy         bool   // it runs in the cluster, with webhooks, from an image that is on the nodes
	OpenMetrics    bool   // with Deploy: each client that reaches the pod may read its metrics
}

// Operator installs the resource definitions and permissions of an operator, and the operator itself with Deploy. It
// updates the objects that already exist. It returns once the cluster serves the definitions.
func Operator(ctx context.Context, config *rest.Config, options Options) (*Installation, error) {
	values := map[string]any{"heroes": map[string]any{"enabled": options.Heroes}}
	if options.Deploy {
		values["image"] = map[string]any{"pullPolicy": string(corev1.PullNever)}
		values["webhooks"] = map[string]any{"enabled": true}
		values["metrics"] = map[string]any{"protected": !options.OpenMetrics}
	} else { // It runs outside of the cluster and alone, so it reviews no tokens and holds no Lease.
		values["metrics"] = map[string]any{"protected": false}
		values["replicas"], values["leaderElection"] = 1, map[string]any{"enabled": false}
	}
	if options.WatchNamespace != "" {
		values["watchNamespace"] = options.WatchNamespace
	}
	manifests, err := render.Operator(Release, Namespace, values)
	if err != nil {
		return nil, err
	}
	i, err := newInstallation(config)
	if err != nil {
		return nil, err
	}
	namespaces := []*unstructured.Unstructured{namespace(Namespace)}
	definitions := manifests.CRDs
	if !options.Deploy {
		manifests = manifests.Without("Deployment")
	}
	for _, object := range slices.Concat(manifests.CRDs, namespaces, manifests.Objects) {
		if object.GetKind() == "CustomResourceDefinition" && !slices.Contains(definitions, object) {
			definitions = append(definitions, object)
		}
		if object.GetKind() == "ServiceAccount" {
			i.account = object.GetName()
		}
		if err := i.apply(ctx, object); err != nil {
			return i, err
		}
	}
	for _, definition := range definitions {
		if err := i.waitServed(ctx, definition.GetName()); err != nil {
			return i, err
		}
	}
	return i, nil
}

// MakeNamespace creates a namespace, and reports whether it did not exist before. If the namespace
// is being deleted, MakeNamespace waits until it is gone.
func MakeNamespace(ctx context.Context, config *rest.Config, name string) (made bool, err error) {
	i, err := newInstallation(config)
	if err != nil {
		return false, err
	}
	err = i.apply(ctx, namespace(name))
	return len(i.created) > 0, err
}

func newInstallation(config *rest.Config) (*Installation, error) {
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making a client for %s: %w", config.Host, err)
	}
	discoverer, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making a client for %s: %w", config.Host, err)
	}
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(discoverer))
	return &Installation{client: client, mapper: mapper}, nil
}

func namespace(name string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": name},
	}}
}

// resource returns the client for objects of the same kind and namespace as object.
func (i *Installation) resource(object *unstructured.Unstructured) (dynamic.ResourceInterface, error) {
	kind := object.GroupVersionKind()
	mapping, err := i.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return nil, fmt.Errorf("finding the resource of %s: %w", kind.Kind, err)
	}
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		return i.client.Resource(mapping.Resource).Namespace(object.GetNamespace()), nil
	}
	return i.client.Resource(mapping.Resource), nil
}

func (i *Installation) apply(ctx context.Context, object *unstructured.Unstructured) error {
	resource, err := i.resource(object)
	if err != nil {
		return err
	}
	held, err := resource.Get(ctx, object.GetName(), metav1.GetOptions{})
	if err == nil && held.GetDeletionTimestamp() != nil { // Such as after a run that just ended.
		if err := waitGone(ctx, resource, held); err != nil {
			return err
		}
		held, err = resource.Get(ctx, object.GetName(), metav1.GetOptions{})
	}
	isNew := apierrors.IsNotFound(err)
	if err != nil && !isNew {
		return fmt.Errorf("installing %s %s: %w", object.GetKind(), object.GetName(), err)
	}
	if !isNew && held.GetKind() == "Namespace" {
		return nil // An existing namespace may belong to another client, and needs no change.
	}
	if _, err := resource.Apply(ctx, object.GetName(), object, metav1.ApplyOptions{FieldManager: fieldManager, Force: true}); err != nil {
		return fmt.Errorf("installing %s %s: %w", object.GetKind(), object.GetName(), err)
	}
	if isNew {
		i.created = append(i.created, object)
	}
	return nil
}

// waitGone waits until an object that is being deleted is gone.
func waitGone(ctx context.Context, resource dynamic.ResourceInterface, object *unstructured.Unstructured) error {
	watcher, err := resource.Watch(ctx, metav1.ListOptions{
		FieldSelector: "metadata.name=" + object.GetName(), ResourceVersion: object.GetResourceVersion(),
	})
	if err != nil {
		return fmt.Errorf("watching %s %s: %w", object.GetKind(), object.GetName(), err)
	}
	defer watcher.Stop()
	for event := range watcher.ResultChan() {
		if event.Type == watch.Deleted {
			return nil
		}
	}
	if ctx.Err() != nil {
		return fmt.Errorf("waiting until %s %s is deleted: %w", object.GetKind(), object.GetName(), context.Cause(ctx))
	}
	return fmt.Errorf("the watch of %s %s ended before it was deleted", object.GetKind(), object.GetName())
}

// waitServed waits until the API server serves a resource definition.
func (i *Installation) waitServed(ctx context.Context, name string) error {
	watcher, err := i.client.Resource(crdResource).Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + name})
	if err != nil {
		return fmt.Errorf("watching CustomResourceDefinition %s: %w", name, err)
	}
	defer watcher.Stop()
	for event := range watcher.ResultChan() {
		object, ok := event.Object.(*unstructured.Unstructured)
		if !ok || event.Type == watch.Deleted {
			continue
		}
		var definition apiextensionsv1.CustomResourceDefinition
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &definition); err != nil {
			return fmt.Errorf("reading CustomResourceDefinition %s: %w", name, err)
		}
		for _, condition := range definition.Status.Conditions {
			switch {
			case condition.Type == apiextensionsv1.Established && condition.Status == apiextensionsv1.ConditionTrue:
				return nil
			case condition.Type == apiextensionsv1.NamesAccepted && condition.Status == apiextensionsv1.ConditionFalse:
				return fmt.Errorf("the cluster does not accept CustomResourceDefinition %s: %s", name, condition.Message)
			}
		}
	}
	if ctx.Err() != nil {
		return fmt.Errorf("waiting for CustomResourceDefinition %s: %w", name, context.Cause(ctx))
	}
	return fmt.Errorf("the watch of CustomResourceDefinition %s ended before the cluster served it", name)
}

// Remove deletes the objects that Operator created, except resource definitions. Deleting those
// would delete every object of their kinds.
func (i *Installation) Remove(ctx context.Context) error {
	for _, object := range slices.Backward(i.created) {
		if object.GetKind() == "CustomResourceDefinition" {
			continue
		}
		resource, err := i.resource(object)
		if err == nil {
			err = resource.Delete(ctx, object.GetName(), metav1.DeleteOptions{})
		}
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("removing %s %s: %w", object.GetKind(), object.GetName(), err)
		}
	}
	return nil
}
