package uninstall

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
)

const fieldManager = "bellerophon-uninstall"

// remove deletes an object, and waits until it is gone: a Deployment together with its pods. An object of the same name
// that is made later stays.
func (c *cluster) remove(ctx context.Context, found item) error {
	ctx, cancel := context.WithTimeout(ctx, c.options.Timeout)
	defer cancel()
	resource := c.client.Resource(found.resource).Namespace(found.GetNamespace())
	policy := metav1.DeletePropagationBackground
	if found.resource == deployments {
		policy = metav1.DeletePropagationForeground
	}
	if err := c.delete(ctx, resource, found.Unstructured, policy); err != nil {
		return err
	}
	return c.waitGone(ctx, resource, found.Unstructured)
}

// removeAll deletes all objects of a kind, and then waits until each one is gone. What an object owns goes after it: a
// last backup needs the members.
func (c *cluster) removeAll(ctx context.Context, of kind) error {
	ctx, cancel := context.WithTimeout(ctx, c.options.Timeout)
	defer cancel()
	client := c.client.Resource(of.resource)
	for i := range of.objects {
		if err := c.delete(ctx, client.Namespace(of.objects[i].GetNamespace()), &of.objects[i], metav1.DeletePropagationBackground); err != nil {
			return err
		}
	}
	var left []error
	for i := range of.objects {
		if err := c.waitGone(ctx, client.Namespace(of.objects[i].GetNamespace()), &of.objects[i]); err != nil {
			left = append(left, err)
		}
	}
	return errors.Join(left...)
}

func (c *cluster) delete(ctx context.Context, resource dynamic.ResourceInterface, object *unstructured.Unstructured, policy metav1.DeletionPropagation) error {
	uid := object.GetUID()
	err := resource.Delete(ctx, object.GetName(), metav1.DeleteOptions{PropagationPolicy: &policy, Preconditions: &metav1.Preconditions{UID: &uid}})
	if err != nil && !isGone(err) && !apierrors.IsConflict(err) { // A conflict says that another object has the name now.
		return fmt.Errorf("deleting %s: %w", nameOf(object), err)
	}
	return nil
}

// waitGone waits until an object is gone. Its error names what the object waits for.
func (c *cluster) waitGone(ctx context.Context, resource dynamic.ResourceInterface, object *unstructured.Unstructured) error {
	for {
		held, err := resource.Get(ctx, object.GetName(), metav1.GetOptions{})
		switch {
		case isGone(err), err == nil && held.GetUID() != object.GetUID():
			return nil
		case err != nil && ctx.Err() != nil:
			return c.stuck(object)
		case err != nil:
			return fmt.Errorf("waiting until %s is gone: %w", nameOf(object), err)
		}
		object = held
		if !next(ctx, resource, object) {
			return c.stuck(object)
		}
	}
}

// next waits for the next event of an object, and reports false if ctx ended before it.
func next(ctx context.Context, resource dynamic.ResourceInterface, object *unstructured.Unstructured) bool {
	watcher, err := resource.Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + object.GetName(), ResourceVersion: object.GetResourceVersion()})
	if err != nil {
		return ctx.Err() == nil
	}
	defer watcher.Stop()
	for {
		select {
		case event, open := <-watcher.ResultChan():
			if !open || event.Type != watch.Bookmark {
				return ctx.Err() == nil
			}
		case <-ctx.Done():
			return false
		}
	}
}

// stuck returns the error for an object that does not go.
func (c *cluster) stuck(object *unstructured.Unstructured) error {
	waits := "it has no finalizer"
	if names := object.GetFinalizers(); len(names) > 0 {
		waits = "it waits for " + strings.Join(names, " and ")
	}
	wayOut := "run the command again when that has ended"
	if len(finalizersOf(object)) > 0 {
		wayOut += ", or with --force, which leaves out the last backup"
	}
	return fmt.Errorf("%s is not gone after %v: %s; %s", nameOf(object), c.options.Timeout, waits, wayOut)
}

// letGo removes the operator's finalizers of an object.
func (c *cluster) letGo(ctx context.Context, of kind, object unstructured.Unstructured) error {
	ctx, cancel := context.WithTimeout(ctx, c.options.Timeout)
	defer cancel()
	resource := c.client.Resource(of.resource).Namespace(object.GetNamespace())
	for { // Until no other client has changed it meanwhile.
		held, err := resource.Get(ctx, object.GetName(), metav1.GetOptions{})
		if isGone(err) {
			return nil
		} else if err != nil {
			return fmt.Errorf("reading %s: %w", nameOf(&object), err)
		}
		left := slices.DeleteFunc(held.GetFinalizers(), func(name string) bool { return slices.Contains(finalizers, name) })
		err = c.patch(ctx, resource, held, map[string]any{"metadata": map[string]any{"finalizers": left, "resourceVersion": held.GetResourceVersion(), "uid": held.GetUID()}})
		if err == nil || isGone(err) {
			return nil
		} else if !apierrors.IsConflict(err) {
			return fmt.Errorf("removing finalizers of %s: %w", nameOf(held), err)
		}
	}
}

// endConversion serves only the stored version of a kind. Without a conversion, other versions would lose fields.
func (c *cluster) endConversion(ctx context.Context, of kind) error {
	ctx, cancel := context.WithTimeout(ctx, c.options.Timeout)
	defer cancel()
	resource := c.client.Resource(definitionResource)
	held, err := resource.Get(ctx, of.definition.GetName(), metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("reading %s: %w", nameOf(of.definition), err)
	}
	versions, _, err := unstructured.NestedSlice(held.Object, "spec", "versions")
	if err != nil {
		return fmt.Errorf("reading the versions of %s: %w", nameOf(held), err)
	}
	for _, each := range versions {
		if version, is := each.(map[string]any); is {
			version["served"] = version["storage"]
		}
	}
	change := map[string]any{
		"metadata": map[string]any{"resourceVersion": held.GetResourceVersion()},
		"spec":     map[string]any{"conversion": map[string]any{"strategy": "None", "webhook": nil}, "versions": versions},
	}
	if err := c.patch(ctx, resource, held, change); err != nil {
		return fmt.Errorf("ending the conversion of %s: %w", nameOf(held), err)
	}
	return nil
}

func (c *cluster) patch(ctx context.Context, resource dynamic.ResourceInterface, object *unstructured.Unstructured, change map[string]any) error {
	encoded, err := json.Marshal(change)
	if err != nil {
		return err
	}
	_, err = resource.Patch(ctx, object.GetName(), types.MergePatchType, encoded, metav1.PatchOptions{FieldManager: fieldManager})
	return err
}

// nameOf names an object in a message.
func nameOf(object *unstructured.Unstructured) string {
	return object.GetKind() + " " + strings.TrimPrefix(object.GetNamespace()+"/"+object.GetName(), "/")
}
