package faults

import (
	"context"
	"fmt"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/dynamic"
)

// User acts in the namespace of a trial. Its requests pass no proxy. Its methods may be called from any goroutine.
type User struct {
	// Namespace is the namespace of the trial.
	Namespace string
	client    dynamic.Interface

	mu sync.Mutex
	// wrote holds the newest resource version that the user created or patched, by kind.
	wrote map[schema.GroupVersionResource]string
	// deleted holds the identity of objects that the user deleted, and did not create again.
	deleted map[deletion]types.UID
}

// deletion names an object that was deleted.
type deletion struct {
	resource schema.GroupVersionResource
	name     string
}

func newUser(namespace string, client dynamic.Interface) *User {
	return &User{Namespace: namespace, client: client, wrote: map[schema.GroupVersionResource]string{}, deleted: map[deletion]types.UID{}}
}

// Create creates an object in the namespace.
func (u *User) Create(ctx context.Context, resource schema.GroupVersionResource, object map[string]any) error {
	made, err := u.client.Resource(resource).Namespace(u.Namespace).Create(ctx, &unstructured.Unstructured{Object: object}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("create an object of %s: %w", resource.Resource, err)
	}
	u.written(resource, made)
	return nil
}

// Patch applies a JSON merge patch to an object of the namespace.
func (u *User) Patch(ctx context.Context, resource schema.GroupVersionResource, name, patch string) error {
	made, err := u.client.Resource(resource).Namespace(u.Namespace).Patch(ctx, name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	if err != nil {
		return fmt.Errorf("patch %s %s: %w", resource.Resource, name, err)
	}
	u.written(resource, made)
	return nil
}

// PatchNamespace applies a JSON merge patch to the namespace itself.
func (u *User) PatchNamespace(ctx context.Context, patch string) error {
	if _, err := u.client.Resource(namespaces).Patch(ctx, u.Namespace, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		return fmt.Errorf("patch the namespace %s: %w", u.Namespace, err)
	}
	return nil
}

// Delete deletes an object of the namespace. The garbage collector deletes what it owns.
func (u *User) Delete(ctx context.Context, resource schema.GroupVersionResource, name string) error {
	background := metav1.DeletePropagationBackground
	in := u.client.Resource(resource).Namespace(u.Namespace)
	held, err := in.Get(ctx, name, metav1.GetOptions{})
	if err == nil {
		err = in.Delete(ctx, name, metav1.DeleteOptions{PropagationPolicy: &background})
	}
	if err != nil {
		return fmt.Errorf("delete %s %s: %w", resource.Resource, name, err)
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.deleted[deletion{resource, name}] = held.GetUID()
	return nil
}

func (u *User) written(resource schema.GroupVersionResource, object *unstructured.Unstructured) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.wrote[resource] = newer(u.wrote[resource], object.GetResourceVersion())
	delete(u.deleted, deletion{resource, object.GetName()})
}

// unseen returns an error that names a change of the user that is not in a state yet, or nil. A step that is judged by such a state is judged by what
// was there before it. newest has the newest resource version in the state, by kind. Kinds that it lacks are not observed.
func (u *User) unseen(state State, newest map[schema.GroupVersionResource]string) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	for kind, version := range u.wrote {
		if seen, is := newest[kind]; is && newer(seen, version) != seen {
			return fmt.Errorf("the user's change of %s is not observed yet", kind.Resource)
		}
	}
	for key, uid := range u.deleted {
		object := state.Get(key.resource, key.name)
		if _, is := newest[key.resource]; is && object != nil && object.GetUID() == uid && object.GetDeletionTimestamp() == nil {
			return fmt.Errorf("the user's deletion of %s %s is not observed yet", key.resource.Resource, key.name)
		}
	}
	return nil
}

// newer returns the newer one of two resource versions; a, if they are equal or cannot be compared.
func newer(a, b string) string {
	if order, err := resourceversion.CompareResourceVersion(a, b); a == "" || err == nil && order < 0 {
		return b
	}
	return a
}

var namespaces = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
