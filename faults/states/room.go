package states

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
)

// room is a namespace with one object of the subject at a time. In rooms, objects can have the same
// name, so that everything that is derived from the name is the same too.
type room struct {
	*explorer
	namespace string
}

var namespaces = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}

// openRooms creates a room for each worker. It returns the rooms that it created even if it fails.
func (e *explorer) openRooms(ctx context.Context) (rooms []*room, err error) {
	for range e.options.Workers {
		r, err := e.openRoom(ctx)
		if err != nil {
			return rooms, err
		}
		rooms = append(rooms, r)
	}
	return rooms, nil
}

// prefix begins the names of rooms.
const prefix = "states-"

func (e *explorer) openRoom(ctx context.Context) (*room, error) {
	namespace := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"generateName": prefix},
	}}
	made, err := e.client.Resource(namespaces).Create(ctx, namespace, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("states: create a namespace: %w", err)
	}
	return &room{e, made.GetName()}, nil
}

// closing bounds the requests after the context has ended.
const closing = 30 * time.Second

// closeRooms deletes the namespaces, without waiting until they are gone.
func (e *explorer) closeRooms(rooms []*room) (err error) {
	for _, r := range rooms {
		err = errors.Join(err, r.close())
	}
	return err
}

// awaitClosed waits until the rooms of an earlier exploration are gone, because their deletion writes. It
// waits for closing at most.
func (e *explorer) awaitClosed(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, closing)
	defer cancel()
	held, err := e.client.Resource(namespaces).List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("states: list namespaces: %w", err)
	}
	left := map[string]bool{}
	for i := range held.Items {
		if name := held.Items[i].GetName(); strings.HasPrefix(name, prefix) && held.Items[i].GetDeletionTimestamp() != nil {
			left[name] = true
		}
	}
	if len(left) == 0 {
		return nil
	}
	events, err := e.client.Resource(namespaces).Watch(ctx, metav1.ListOptions{ResourceVersion: held.GetResourceVersion()})
	if err != nil {
		return fmt.Errorf("states: watch namespaces: %w", err)
	}
	defer events.Stop()
	for event := range events.ResultChan() {
		if gone, known := event.Object.(*unstructured.Unstructured); known && event.Type == watch.Deleted {
			delete(left, gone.GetName())
		}
		if len(left) == 0 {
			break
		}
	}
	return nil
}

func (r *room) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closing)
	defer cancel()
	if err := r.client.Resource(namespaces).Delete(ctx, r.namespace, metav1.DeleteOptions{}); err != nil {
		return fmt.Errorf("states: delete namespace %s: %w", r.namespace, err)
	}
	return nil
}

func (r *room) ours() dynamic.ResourceInterface {
	return r.client.Resource(r.resource).Namespace(r.namespace)
}

// object returns the object for a state.
func (r *room) object(s state, name string) *unstructured.Unstructured {
	object := &unstructured.Unstructured{Object: s.contentOf(r.root, r.base)}
	object.SetGroupVersionKind(r.kind)
	object.SetNamespace(r.namespace)
	object.SetName(name)
	return object
}

// accepts returns the content that the API server would store for a state, or its refusal.
func (r *room) accepts(ctx context.Context, s state, name string) (content string, refusal, err error) {
	made, err := r.ours().Create(ctx, r.object(s, name), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	if isRefusal(err) {
		return "", err, nil
	}
	if err != nil {
		return "", nil, fmt.Errorf("states: ask the API server for %s: %w", s, err)
	}
	kept := map[string]any{}
	for name, held := range made.Object {
		switch name {
		case "apiVersion", "kind", "metadata", "status":
		default:
			kept[name] = held
		}
	}
	encoded, err := json.Marshal(kept)
	if err != nil {
		return "", nil, fmt.Errorf("states: encode %s: %w", s, err)
	}
	return string(encoded), nil, nil
}

// isRefusal reports whether the API server has refused a content. Webhooks and policies answer Forbidden.
func isRefusal(err error) bool {
	return apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || apierrors.IsForbidden(err)
}

// refusalText returns the message and the fields of a refusal.
func refusalText(refusal error) string {
	text := refusal.Error()
	var status apierrors.APIStatus
	if errors.As(refusal, &status) && status.Status().Details != nil {
		for _, cause := range status.Status().Details.Causes {
			text += " " + cause.Field
		}
	}
	return text
}

// create creates the object. If one of its name is being deleted, create waits until it is gone.
func (r *room) create(ctx context.Context, s state, name string) error {
	for {
		_, err := r.ours().Create(ctx, r.object(s, name), metav1.CreateOptions{})
		if err == nil {
			return nil
		}
		if !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("states: create an object with %s: %w", s, err)
		}
		waiting, cancel := context.WithTimeout(ctx, r.patience())
		err = r.seen.await(waiting, r.namespace, 0, func(objects []*unstructured.Unstructured) bool { return r.main(objects) == nil })
		cancel()
		if err != nil {
			return fmt.Errorf("states: wait until the deleted object is gone: %w", err)
		}
	}
}

// change changes the content of the object, as kubectl replace does. It returns the new generation, or
// the API server's refusal.
func (r *room) change(ctx context.Context, s state) (generation int64, refusal, err error) {
	var patch []map[string]any
	content := s.contentOf(r.root, r.base)
	for name := range r.root.Properties {
		switch name {
		case "apiVersion", "kind", "metadata", "status":
			continue
		}
		if value, has := content[name]; has {
			patch = append(patch, map[string]any{"op": "add", "path": "/" + name, "value": value})
		} else { // An add first, because a field that is not there cannot be removed.
			patch = append(patch, map[string]any{"op": "add", "path": "/" + name, "value": nil}, map[string]any{"op": "remove", "path": "/" + name})
		}
	}
	encoded, err := json.Marshal(patch)
	if err != nil {
		return 0, nil, fmt.Errorf("states: encode %s: %w", s, err)
	}
	changed, err := r.ours().Patch(ctx, usual, types.JSONPatchType, encoded, metav1.PatchOptions{})
	switch {
	case isRefusal(err):
		return 0, err, nil
	case err != nil:
		return 0, nil, fmt.Errorf("states: change the object to %s: %w", s, err)
	}
	return changed.GetGeneration(), nil, nil
}

func (r *room) delete(ctx context.Context, name string) error {
	background := metav1.DeletePropagationBackground
	err := r.ours().Delete(ctx, name, metav1.DeleteOptions{PropagationPolicy: &background})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("states: delete the object: %w", err)
	}
	return nil
}

// clear deletes the object, and waits until nothing is left. If something is left, the room moves to
// another namespace.
func (r *room) clear(ctx context.Context, name, walk string) ([]Problem, error) {
	if err := r.delete(ctx, name); err != nil {
		return nil, err
	}
	late, err := r.await(ctx, 0, func(objects []*unstructured.Unstructured) bool { return len(objects) == 0 })
	if err != nil || !late {
		return nil, err
	}
	var left []string
	for _, object := range r.seen.objectsIn(r.namespace) {
		left = append(left, object.GetKind()+" "+object.GetName())
	}
	another, err := r.openRoom(ctx)
	if err != nil {
		return nil, err
	}
	err = r.close()
	r.namespace = another.namespace
	return []Problem{{LeavesNothing, walk, strings.Join(left, ", ") + " is left after the deletion"}}, err
}

// await waits until a check holds, for the quiet time. It reports whether that took too long.
func (r *room) await(ctx context.Context, quiet time.Duration, check func([]*unstructured.Unstructured) bool) (late bool, err error) {
	started := time.Now()
	waiting, cancel := context.WithTimeout(ctx, r.patience())
	defer cancel()
	err = r.seen.await(waiting, r.namespace, quiet, check)
	if err != nil && ctx.Err() == nil {
		return true, nil
	}
	r.waited(time.Since(started))
	return false, err
}

// patience returns how long a wait may take.
func (e *explorer) patience() time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	patience := e.options.Patience
	for _, wait := range e.waits {
		patience = max(patience, 6*wait)
	}
	return patience
}

// waited notes a wait that ended well.
func (e *explorer) waited(took time.Duration) {
	const remembered = 20
	e.mu.Lock()
	defer e.mu.Unlock()
	e.waits = append(e.waits, took)
	e.waits = e.waits[max(0, len(e.waits)-remembered):]
}

// live returns the objects of the room as the API server has them. The observer may lag for one kind
// while it is current for another.
func (r *room) live(ctx context.Context) (objects []*unstructured.Unstructured, err error) {
	for _, resource := range append([]schema.GroupVersionResource{r.resource}, r.subject.Children...) {
		list, err := r.client.Resource(resource).Namespace(r.namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, fmt.Errorf("states: list %s: %w", resource.Resource, err)
		}
		for i := range list.Items {
			if !isOfTheCluster(&list.Items[i]) {
				objects = append(objects, &list.Items[i])
			}
		}
	}
	return objects, nil
}

// main returns the object of the subject, or nil.
func (e *explorer) main(objects []*unstructured.Unstructured) *unstructured.Unstructured {
	for _, object := range objects {
		if object.GroupVersionKind() == e.kind {
			return object
		}
	}
	return nil
}

// judge returns the operator's answer for a generation of the object. While something is being deleted,
// the answer is Pending.
func (e *explorer) judge(objects []*unstructured.Unstructured, generation int64) (Verdict, string) {
	main := e.main(objects)
	if main == nil {
		return Pending, "there is no object"
	}
	verdict, text := e.subject.Judge(main)
	if main.GetGeneration() < generation || !isCurrent(main) {
		return Pending, "the status does not describe the current generation: " + text
	}
	for _, object := range objects {
		if object.GetDeletionTimestamp() != nil {
			return Pending, object.GetKind() + " " + object.GetName() + " is being deleted"
		}
	}
	return verdict, text
}
