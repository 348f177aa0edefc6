package controller

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"sync/atomic"
	"time"

	"github.com/bellerophon-io/bellerophon/operators"
	"github.com/bellerophon-io/bellerophon/sources"
	"github.com/bellerophon-io/bellerophon/streams"
	"k8s.io/apimachinery/pkg/types"
)

// fieldManager is the query parameter of that field in metav1.CreateOptions and PatchOptions. It is
// set directly: encoding those options took a twentieth of the CPU of an operator that creates.
const fieldManager = "fieldManager"

// Client reads the kinds that a manager watches from its cache, and writes to the API server. A read
// sees the writes that returned before it. Its functions may be called from any goroutine.
//
// The objects that [Get], [List] and [ByIndex] return belong to the cache and must not be changed:
// change a deep copy. The objects that [Live] and the writes return belong to the caller.
//
// Errors of the API server are wrapped with the verb and the object; test them with the functions of
// k8s.io/apimachinery/pkg/api/errors.
type Client struct {
	manager *Manager
	forms   atomic.Pointer[map[reflect.Type]*form] // The map is never changed, only replaced.
}

func newClient(manager *Manager) *Client {
	made := &Client{manager: manager}
	made.forms.Store(&map[reflect.Type]*form{})
	return made
}

// Get returns an object of type T from the cache. A kind that is watched as a projection or as metadata
// is read as that type. Get panics if no controller watches T, or none any longer. So do List and
// ByIndex.
func Get[T streams.Object](c *Client, name types.NamespacedName) (object T, found bool) {
	store := c.read(reflect.TypeFor[T]()).store()
	if store == nil {
		return object, false
	}
	held, found := store.Get(name)
	if !found {
		return object, false
	}
	return held.(T), true
}

// List returns the objects of type T in a namespace from the cache, sorted by namespace and name. An
// empty namespace stands for all namespaces.
func List[T streams.Object](c *Client, namespace string) []T {
	store := c.read(reflect.TypeFor[T]()).store()
	if store == nil {
		return nil
	}
	return typed[T](store.List(namespace))
}

// ByIndex returns the objects of type T that have a value in an index from the cache, sorted by
// namespace and name.
func ByIndex[T streams.Object](c *Client, index, value string) []T {
	store := c.read(reflect.TypeFor[T]()).store()
	if store == nil {
		return nil
	}
	return typed[T](store.ByIndex(index, value))
}

// typed converts objects of the cache to their Go type.
func typed[T streams.Object](held []streams.Object) []T {
	objects := make([]T, len(held))
	for i, object := range held {
		objects[i] = object.(T)
	}
	return objects
}

// Live reads an object from the API server instead of the cache, which costs a request. Use it if a
// write was refused in a way that the cache cannot explain. Use it also to read the whole of an object
// that is kept as a projection or as metadata.
func Live[T streams.Object](ctx context.Context, c *Client, name types.NamespacedName) (T, error) {
	kind := c.of(reflect.TypeFor[T]())
	object := kind.as.New()
	err := kind.requests.Get().NamespaceIfScoped(name.Namespace, kind.as.Namespaced).
		Resource(kind.as.Resource).Name(name.Name).Do(ctx).Into(object)
	if err == nil {
		object, err = kind.as.Projected(object)
	}
	if err != nil {
		return *new(T), fmt.Errorf("reading %s: %w", streams.Key{GroupKind: kind.as.GroupKind(), NamespacedName: name}, err)
	}
	return object.(T), nil
}

// Create creates an object and returns it as the API server stored it. T must be the API type. The
// answer enters the cache in the form in which the kind is kept: whole, as a projection or as metadata.
// Both also hold for Apply, Merge, Patch and PatchStatus, except that Patch and PatchStatus accept
// metadata too.
func Create[T streams.Object](ctx context.Context, c *Client, object T) (T, error) {
	kind := c.written(reflect.TypeFor[T](), "create", true)
	created := kind.as.New()
	err := kind.requests.Post().NamespaceIfScoped(object.GetNamespace(), kind.as.Namespaced).
		Resource(kind.as.Resource).
		Param(fieldManager, c.manager.options.UserAgent).
		Body(object).Do(ctx).Into(created)
	return wrote(ctx, kind, "create", true, object, created, err)
}

// Apply applies an object server-side, with force: it takes over the fields that the object sets, even
// if another field manager owns them. Fields that the object leaves out stay as they are, except for
// fields that only an earlier Apply set: the API server removes these. Apply returns the object as the
// API server stored it.
func Apply[T streams.Object](ctx context.Context, c *Client, object T) (T, error) {
	kind := c.written(reflect.TypeFor[T](), "apply", true)
	applied := object.DeepCopyObject().(T)
	applied.GetObjectKind().SetGroupVersionKind(kind.as.GroupVersionKind)
	applied.SetManagedFields(nil)
	body, err := json.Marshal(applied)
	if err != nil {
		return *new(T), fmt.Errorf("encoding %s: %w", streams.KeyOf(kind.as.GroupKind(), object), err)
	}
	return patch(ctx, c, kind, types.ApplyPatchType, "apply", body, object)
}

// Merge sends the fields that object sets as a strategic merge patch. The kind must be built into
// Kubernetes. Fields that object leaves out stay as they are, and list items are matched by their merge
// keys. Unlike [Patch], Merge does not need the current state. It costs the API server half as much as
// [Apply], and removes nothing.
//
// A field is set unless it holds the zero value of its type, an empty map or an empty slice. So
// false, 0, "" and an empty list cannot be merged into a field, and need [Patch]. A pointer that is
// not nil is set even if it points to a zero value: a Replicas of new(int32) scales to 0. All values
// of a map and all items of a list are sent, including zero values. The status is left out.
//
// If object has a resource version other than the stored object's, Merge fails with a conflict. If it
// has another uid, Merge fails with an invalid error. In both cases nothing is changed. Merge returns
// the object as the API server stored it.
func Merge[T streams.Object](ctx context.Context, c *Client, object T) (T, error) {
	kind := c.written(reflect.TypeFor[T](), "merge", true)
	body, err := encodeSet(object)
	if err != nil {
		return *new(T), fmt.Errorf("encoding %s: %w", streams.KeyOf(kind.as.GroupKind(), object), err)
	}
	return patch(ctx, c, kind, types.StrategicMergePatchType, "patch", body, object)
}

// Patch sends the difference between before, the object as it was read, and after, except for the
// status. If the object was changed since before was read, Patch fails with a conflict and changes
// nothing.
func Patch[T streams.Object](ctx context.Context, c *Client, before, after T) (T, error) {
	kind := c.written(reflect.TypeFor[T](), "patch", false)
	body, err := mergePatch(before, after, func(part string) bool { return part != "status" })
	if err != nil {
		return *new(T), fmt.Errorf("encoding %s: %w", streams.KeyOf(kind.as.GroupKind(), after), err)
	}
	return patch(ctx, c, kind, types.MergePatchType, "patch", body, before)
}

// PatchStatus sends the difference between the status in before, the object as it was read, and the
// status in after. It changes nothing else. If the object was changed since before was read,
// PatchStatus fails with a conflict and changes nothing.
func PatchStatus[T streams.Object](ctx context.Context, c *Client, before, after T) (T, error) {
	kind := c.written(reflect.TypeFor[T](), "patch", false)
	body, err := mergePatch(before, after, func(part string) bool { return part == "status" })
	if err != nil {
		return *new(T), fmt.Errorf("encoding the status of %s: %w", streams.KeyOf(kind.as.GroupKind(), after), err)
	}
	return patch(ctx, c, kind, types.MergePatchType, "patch", body, before, "status")
}

func patch[T streams.Object](ctx context.Context, c *Client, kind *form, how types.PatchType, verb string,
	body []byte, object T, subresources ...string) (T, error) {
	request := kind.requests.Patch(how).NamespaceIfScoped(object.GetNamespace(), kind.as.Namespaced).
		Resource(kind.as.Resource).Name(object.GetName()).SubResource(subresources...).
		Param(fieldManager, c.manager.options.UserAgent)
	if how == types.ApplyPatchType {
		request.Param("force", "true")
	}
	patched := kind.as.New()
	err := request.Body(body).Do(ctx).Into(patched)
	// If a write is conditional on a version, an answer with another version can only come from it.
	conditional := how != types.ApplyPatchType && object.GetResourceVersion() != "" && patched.GetResourceVersion() != object.GetResourceVersion()
	return wrote(ctx, kind, verb, conditional, object, patched, err)
}

// errNoObject is wrapped in the error of a write whose answer is not the object.
var errNoObject = errors.New("the answer is not the object that was written; is there a proxy before the API server?")

// wrote handles the answer to a write: it records the write for the attempt, and makes the answer
// visible to readers. sole is Write.Sole.
func wrote[T streams.Object](ctx context.Context, kind *form, verb string, sole bool, object T, answer streams.Object, err error) (T, error) {
	key := streams.KeyOf(kind.as.GroupKind(), object)
	if err != nil {
		return *new(T), fmt.Errorf("cannot %s %s: %w", verb, key, err)
	}
	// client-go leaves the object empty where the answer is a Status of success, or nothing.
	if answer.GetName() == "" {
		return *new(T), fmt.Errorf("cannot %s %s: %w", verb, key, errNoObject)
	}
	key = streams.KeyOf(kind.as.GroupKind(), answer) // The server may have generated the name.
	operators.RecordWrite(ctx, operators.Write{Verb: verb, Key: key, ResourceVersion: answer.GetResourceVersion(), Sole: sole})
	reported := kind.reports(answer) // This comes before AsWatched, which may remove the labels.
	kept, err := sources.AsWatched(kind.kind, kind.options, answer)
	if err != nil {
		return *new(T), fmt.Errorf("%s was written, but cannot enter the cache: %w", key, err)
	}
	var since time.Time
	if request, ok := operators.RequestOf(ctx); ok && len(request.Causes) > 0 {
		since = request.Received
	}
	return recordAnswer(kind, answer, kept, since, reported).(T), nil
}

// recordAnswer adds kept, the form of an answer that the cache keeps, to the cache. It returns the
// object for the caller of the write. The two objects share nothing, because the caller may change its
// object. The smaller one is copied. An object that the watch does not report stays out of the cache.
func recordAnswer(kind *form, answer, kept streams.Object, since time.Time, reported bool) streams.Object {
	store, whole := kind.store(), kind.kept()
	if whole {
		answer = kept
	}
	if store == nil {
		return answer
	}
	if !whole { // A projection may share parts with the object that it was made of.
		kept = kept.DeepCopyObject().(streams.Object)
	}
	kind.options.Status.RecordWrite(kept.GetNamespace(), kept.GetResourceVersion())
	passed := !reported || store.RecordWrite(kept, since)
	if whole && !passed {
		return answer.DeepCopyObject().(streams.Object)
	}
	return answer
}
