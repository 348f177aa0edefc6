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

// fieldManager is the query parameter that metav1.CreateOptions and PatchOptions have of that
// name. To encode those took a twentieth of the CPU of an operator that creates.
const fieldManager = "fieldManager"

// Client reads the kinds that a manager watches from its cache, and writes them to the
// API server. What it wrote, the next read sees. Its functions may be called from any
// goroutine. Objects that [Get], [List] and [ByIndex] return are those of the cache and must not be
// changed: change a deep copy. What [Live] and the writes return is the caller's own.
//
// Errors of the API server are wrapped with what was being done to which object; test
// them with the functions of k8s.io/apimachinery/pkg/api/errors.
type Client struct {
	manager *Manager
	forms   atomic.Pointer[map[reflect.Type]*form] // Nothing changes the map.
}

func newClient(manager *Manager) *Client {
	made := &Client{manager: manager}
	made.forms.Store(&map[reflect.Type]*form{})
	return made
}

// Get is an object of type T from the cache. It panics if no controller watches T, or none any
// more, here as in List and ByIndex; what is watched as a projection or as metadata is read as that.
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

// List is the objects of type T in a namespace, or in all, if it is empty, from the
// cache, by namespace and name.
func List[T streams.Object](c *Client, namespace string) []T {
	store := c.read(reflect.TypeFor[T]()).store()
	if store == nil {
		return nil
	}
	return typed[T](store.List(namespace))
}

// ByIndex is the objects of type T that have a value in an index, from the cache, by
// namespace and name.
func ByIndex[T streams.Object](c *Client, index, value string) []T {
	store := c.read(reflect.TypeFor[T]()).store()
	if store == nil {
		return nil
	}
	return typed[T](store.ByIndex(index, value))
}

func typed[T streams.Object](held []streams.Object) []T {
	objects := make([]T, len(held))
	for i, object := range held {
		objects[i] = object.(T)
	}
	return objects
}

// Live reads an object from the API server, past the cache. It costs a request: use it
// where a write was refused in a way that the cache cannot explain, or for the whole of what
// is kept as a projection or as metadata.
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

// Create creates an object and returns it as the API server stored it. T is the type of the
// API; a kind that is kept as a projection or as metadata then enters the cache as that. It
// is likewise with Apply, Patch and PatchStatus, but Patch and PatchStatus take metadata too.
func Create[T streams.Object](ctx context.Context, c *Client, object T) (T, error) {
	kind := c.written(reflect.TypeFor[T](), "create", true)
	created := kind.as.New()
	err := kind.requests.Post().NamespaceIfScoped(object.GetNamespace(), kind.as.Namespaced).
		Resource(kind.as.Resource).
		Param(fieldManager, c.manager.options.UserAgent).
		Body(object).Do(ctx).Into(created)
	return wrote(ctx, kind, "create", true, object, created, err)
}

// Apply applies an object server-side: what it sets becomes so, whoever owned it, and
// what it leaves out stays as it is. It returns the object as it is then.
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

// Merge changes an object of a kind that is built into Kubernetes so that it has what the given
// one sets. What the given one leaves out stays as it is, and items of lists are told apart by
// their merge keys (a strategic merge patch). Merge needs to know nothing of what is there, unlike
// [Patch], costs the API server half of what [Apply] does, and takes nothing away.
//
// A field is set unless it holds the zero value of its type, an empty map or an empty slice. So
// false, 0, "" and an empty list cannot be merged into a field, and need [Patch]. A pointer that
// is not nil is set even if it points to a zero value: a Replicas of new(int32) scales to 0. The
// values of a map and the items of a list are all sent, the zero ones too. The status is left out.
//
// If the given object has a resource version and the one that is there has another, the error is
// a conflict; if it has another uid, the error is that it is invalid. In both cases nothing is
// changed. Merge returns the object as the API server stored it.
func Merge[T streams.Object](ctx context.Context, c *Client, object T) (T, error) {
	kind := c.written(reflect.TypeFor[T](), "merge", true)
	body, err := encodeSet(object)
	if err != nil {
		return *new(T), fmt.Errorf("encoding %s: %w", streams.KeyOf(kind.as.GroupKind(), object), err)
	}
	return patch(ctx, c, kind, types.StrategicMergePatchType, "patch", body, object)
}

// Patch changes an object from what it is in before, as it was read, to what it is in
// after, except for its status. If the object was changed in between, it is a conflict, and
// nothing is changed.
func Patch[T streams.Object](ctx context.Context, c *Client, before, after T) (T, error) {
	kind := c.written(reflect.TypeFor[T](), "patch", false)
	body, err := mergePatch(before, after, func(part string) bool { return part != "status" })
	if err != nil {
		return *new(T), fmt.Errorf("encoding %s: %w", streams.KeyOf(kind.as.GroupKind(), after), err)
	}
	return patch(ctx, c, kind, types.MergePatchType, "patch", body, before)
}

// PatchStatus changes the status of an object from what it is in before, as it was read,
// to what it is in after. Of the rest it changes nothing. If the object was changed in
// between, it is a conflict, and nothing is changed.
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
	// On condition of a version, an answer of another version is that of this write.
	conditional := how != types.ApplyPatchType && object.GetResourceVersion() != "" && patched.GetResourceVersion() != object.GetResourceVersion()
	return wrote(ctx, kind, verb, conditional, object, patched, err)
}

// errNoObject is in the error of a write that was answered with something else.
var errNoObject = errors.New("the answer is not the object that was written; is there a proxy before the API server?")

// wrote makes the answer to a write visible to readers, and counts it.
func wrote[T streams.Object](ctx context.Context, kind *form, verb string, sole bool, object T, answer streams.Object, err error) (T, error) {
	key := streams.KeyOf(kind.as.GroupKind(), object)
	if err != nil {
		return *new(T), fmt.Errorf("cannot %s %s: %w", verb, key, err)
	}
	// client-go leaves the object empty where the answer is a Status of success, or nothing.
	if answer.GetName() == "" {
		return *new(T), fmt.Errorf("cannot %s %s: %w", verb, key, errNoObject)
	}
	key = streams.KeyOf(kind.as.GroupKind(), answer) // The server may have made the name.
	operators.RecordWrite(ctx, operators.Write{Verb: verb, Key: key, ResourceVersion: answer.GetResourceVersion(), Sole: sole})
	told := kind.tells(answer) // Before it is kept, which may take the labels away.
	kept, err := sources.AsWatched(kind.kind, kind.options, answer)
	if err != nil {
		return *new(T), fmt.Errorf("%s was written, but the cache cannot keep it: %w", key, err)
	}
	var since time.Time
	if request, ok := operators.RequestOf(ctx); ok && len(request.Causes) > 0 {
		since = request.Received
	}
	return hold(kind, answer, kept, since, told).(T), nil
}

// hold enters what is kept of an answer into the cache, and returns what the caller of the write
// gets. The two share nothing: the caller may change its own, and nobody what the cache holds.
// The smaller one is copied. An object that the watch does not select stays out of the cache.
func hold(kind *form, answer, kept streams.Object, since time.Time, told bool) streams.Object {
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
	passed := !told || store.RecordWrite(kept, since)
	if whole && !passed {
		return answer.DeepCopyObject().(streams.Object)
	}
	return answer
}
