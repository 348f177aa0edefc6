package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"sync"
	"time"

	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/operators"
	"github.com/bellerophon-io/bellerophon/sources"
	"github.com/bellerophon-io/bellerophon/streams"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

// patcher applies the operations that hooks ask for.
type patcher struct {
	manager *controller.Manager
	kinds   *kinds
	config  *rest.Config
	http    *http.Client
	anchor  controller.Option // the For of each controller

	mu       sync.Mutex
	declared map[schema.GroupVersionKind]bool // the kinds that the client knows
}

// apply applies the operations in order, up to the first that fails.
func (p *patcher) apply(ctx context.Context, hook *Hook, content []byte) error {
	operations, err := parseOperations(content)
	if err != nil {
		return fmt.Errorf("reading KUBERNETES_PATCH_PATH: %w", err)
	}
	for i, operation := range operations {
		of, err := p.resolve(ctx, operation)
		if err == nil {
			err = p.do(ctx, operation, of)
		}
		if operation.IgnoreMissingObject {
			err = controller.IgnoreNotFound(err)
		}
		if err != nil {
			return fmt.Errorf("operation %d, %s: %w", i+1, operation.Operation, err)
		}
	}
	return nil
}

// resolve finds the kind of an operation, and declares it to the client.
func (p *patcher) resolve(ctx context.Context, operation *operation) (kind, error) {
	of, err := p.kinds.find(ctx, operation.APIVersion, operation.Kind)
	switch {
	case err != nil:
		return kind{}, err
	case of.namespaced && operation.Namespace == "":
		return kind{}, fmt.Errorf("namespace is missing, and %v has namespaces", of.GroupKind())
	case !of.namespaced && operation.Namespace != "":
		return kind{}, fmt.Errorf("namespace is %q, and %v has no namespaces", operation.Namespace, of.GroupKind())
	}
	operation.object.SetGroupVersionKind(of.GroupVersionKind)
	return of, p.declare(of)
}

// declare lets the client write a kind, unless it knows the kind. The kinds that hooks write are in no
// configuration, so each is declared by a controller of its own that has nothing to do.
func (p *patcher) declare(of kind) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.declared[of.GroupVersionKind] {
		return nil
	}
	nothing := func(context.Context, operators.Request) (time.Duration, error) { return 0, nil }
	err := p.manager.Add("writes of "+of.GroupVersionKind.String(), nothing, p.anchor,
		controller.Uses(&unstructured.Unstructured{}, of.options()...))
	p.declared[of.GroupVersionKind] = err == nil
	return err
}

// options returns the options that name the kind.
func (k kind) options() []controller.InputOption {
	named := []controller.InputOption{controller.OfKind(k.GroupVersionKind), controller.Plural(k.resource)}
	if !k.namespaced {
		named = append(named, controller.ClusterScoped())
	}
	return named
}

func (p *patcher) do(ctx context.Context, operation *operation, of kind) error {
	client := p.manager.Client()
	var subresource []controller.WriteOption
	if operation.Subresource != "" {
		subresource = append(subresource, controller.Subresource(operation.Subresource))
	}
	var err error
	switch operation.Operation {
	case opCreate:
		_, err = controller.Create(ctx, client, operation.object)
	case opCreateIfNotExists:
		if _, err = controller.Create(ctx, client, operation.object); apierrors.IsAlreadyExists(err) {
			err = nil
		}
	case opCreateOrUpdate:
		err = createOrUpdate(ctx, client, operation.object)
	case opMergePatch:
		_, err = controller.Patch(ctx, client, operation.object, controller.RawPatch(types.MergePatchType, operation.body), subresource...)
	case opJSONPatch:
		_, err = controller.Patch(ctx, client, operation.object, controller.RawPatch(types.JSONPatchType, operation.body), subresource...)
	case opJQPatch:
		_, err = controller.RetryOnConflict(ctx, client, nameOf(operation.object), func(object *unstructured.Unstructured) error {
			return operation.transform(ctx, object)
		}, append(subresource, controller.OfKind(of.GroupVersionKind))...)
	case opDelete:
		err = p.deleteInForeground(ctx, operation.object, of)
	case opDeleteInBackground:
		err = controller.IgnoreNotFound(controller.Delete(ctx, client, operation.object, controller.Propagation(metav1.DeletePropagationBackground)))
	case opDeleteNonCascading:
		err = controller.IgnoreNotFound(controller.Delete(ctx, client, operation.object, controller.Propagation(metav1.DeletePropagationOrphan)))
	}
	return err
}

// createOrUpdate merges the fields of an object into the one that exists, or creates it.
func createOrUpdate(ctx context.Context, client *controller.Client, object *unstructured.Unstructured) error {
	fields := maps.Clone(object.Object)
	delete(fields, "status")
	body, err := json.Marshal(fields)
	if err != nil {
		return err
	}
	_, err = controller.Patch(ctx, client, object, controller.RawPatch(types.MergePatchType, body))
	if !apierrors.IsNotFound(err) {
		return err
	}
	_, err = controller.Create(ctx, client, object)
	if apierrors.IsAlreadyExists(err) { // Another client was faster.
		_, err = controller.Patch(ctx, client, object, controller.RawPatch(types.MergePatchType, body))
	}
	return err
}

// transform replaces an object by what the jq program of the operation makes of it.
func (o *operation) transform(ctx context.Context, object *unstructured.Unstructured) error {
	result, err := runJQ(ctx, o.filter, object.Object)
	if err != nil {
		return fmt.Errorf("jqFilter: %w", err)
	}
	text, err := encoded(result)
	if err != nil {
		return fmt.Errorf("jqFilter: %w", err)
	}
	changed := &unstructured.Unstructured{}
	if changed.UnmarshalJSON(text) != nil || nameOf(changed) != nameOf(object) {
		return fmt.Errorf("the result of jqFilter is not the object with changes; write it as .spec.replicas = 1, for example")
	}
	*object = *changed
	return nil
}

// deleteInForeground deletes an object after the objects that it owns, and waits until it is gone.
func (p *patcher) deleteInForeground(ctx context.Context, object *unstructured.Unstructured, of kind) error {
	client := p.manager.Client()
	found, err := controller.GetLive[*unstructured.Unstructured](ctx, client, nameOf(object), controller.OfKind(of.GroupVersionKind))
	if err == nil {
		err = controller.Delete(ctx, client, found, controller.Propagation(metav1.DeletePropagationForeground))
	}
	if err != nil {
		return controller.IgnoreNotFound(err)
	}
	if err := p.waitUntilGone(ctx, found, of); err != nil {
		return fmt.Errorf("waiting for the end of %s: %w", streams.KeyOf(of.GroupKind(), object), err)
	}
	return nil
}

func (p *patcher) waitUntilGone(ctx context.Context, object *unstructured.Unstructured, of kind) error {
	source, err := sources.KindOf(runtime.NewScheme(), object, sources.OfKind(of.GroupVersionKind), sources.Plural(of.resource))
	if err != nil {
		return err
	}
	requests, err := source.Client(p.config, p.http)
	if err != nil {
		return err
	}
	options := sources.WatchOptions{FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, object.GetName()).String()}
	if of.namespaced {
		options.Namespaces = []string{object.GetNamespace()}
	}
	watching, stop := context.WithCancel(ctx)
	defer stop()
	exists, gone := false, false
	err = streams.ForEach(watching, sources.Watch(requests, source, options), func(events []streams.Event) {
		for _, event := range events {
			same := event.Object != nil && event.Object.GetUID() == object.GetUID()
			switch event.Type {
			case streams.ListStart:
				exists = false
			case streams.Listed:
				exists = exists || same
			case streams.ListEnd:
				gone = gone || !exists
			case streams.Deleted:
				gone = gone || same
			}
		}
		if gone {
			stop()
		}
	}, func(error) {}) // The source watches again after a failure, and ctx bounds the wait.
	if err == nil && !gone {
		err = context.Cause(ctx)
	}
	return err
}
