package controller

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/bellerophon-io/bellerophon/streams"
	"k8s.io/apimachinery/pkg/types"
)

// PatchSource says what a [Patch] sends: see [MergeFrom], [StrategicMerge], [StrategicMergeFrom],
// [JSONPatch] and [RawPatch].
type PatchSource struct {
	how types.PatchType
	// make returns the body of the patch, or nil if nothing is to be changed. part is "status" for the
	// status, and empty for the rest.
	make      func(object streams.Object, part string, conditional bool) ([]byte, error)
	from      streams.Object // the object before the change, on whose version the patch is conditional; or nil
	needsFrom bool
	whole     bool // the patch sends the fields that the object sets, among them its resource version
}

// version returns the version on which the patch of an object is conditional, or "".
func (s PatchSource) version(object streams.Object, how *writing) string {
	switch {
	case s.from != nil && !how.unconditional:
		return s.from.GetResourceVersion()
	case s.whole:
		return object.GetResourceVersion()
	}
	return ""
}

// MergeFrom returns a merge patch of the difference between before, the object as it was read, and the object
// that is given to [Patch]. If the object was changed since before was read, the patch fails with a
// conflict and changes nothing: see [Unconditional].
func MergeFrom(before streams.Object) PatchSource {
	return PatchSource{how: types.MergePatchType, from: before, needsFrom: true, make: func(object streams.Object, part string, conditional bool) ([]byte, error) {
		return mergePatch(before, object, selectsPart(part), conditional)
	}}
}

// StrategicMergeFrom returns the patch of MergeFrom as a strategic merge patch: list items are matched by their merge keys,
// so that concurrent changes of other items are kept. The kind must be built into Kubernetes.
func StrategicMergeFrom(before streams.Object) PatchSource {
	return PatchSource{how: types.StrategicMergePatchType, from: before, needsFrom: true, make: func(object streams.Object, part string, conditional bool) ([]byte, error) {
		return strategicPatch(before, object, selectsPart(part), conditional)
	}}
}

// StrategicMerge returns a strategic merge patch of the fields that the object sets. The kind must be built
// into Kubernetes. Fields that the object leaves out stay as they are, and list items are matched by
// their merge keys. The current state is not needed. It costs the API server half as much as [Apply],
// and removes nothing.
//
// A field is set unless it holds the zero value of its type, an empty map or an empty slice. So
// false, 0, "" and an empty list cannot be merged into a field, and need [MergeFrom]. A pointer that is
// not nil is set even if it points to a zero value: a Replicas of new(int32) scales to 0. All values
// of a map and all items of a list are sent, including zero values. The status is left out.
//
// If the object has a resource version other than the stored object's, the patch fails with a conflict.
// If it has another uid, the patch fails with an invalid error. In both cases nothing is changed.
func StrategicMerge() PatchSource {
	return PatchSource{how: types.StrategicMergePatchType, whole: true, make: func(object streams.Object, part string, _ bool) ([]byte, error) {
		if part != "" {
			return nil, errors.New("StrategicMerge leaves the status out; use MergeFrom")
		}
		return encodeSet(object)
	}}
}

// JSONPatchOperation is one operation of a [JSONPatch]: see RFC 6902.
type JSONPatchOperation struct {
	Op    string `json:"op"`             // add, remove, replace, move, copy or test
	Path  string `json:"path"`           // such as /spec/replicas; / in a name is written ~1, and ~ is written ~0
	From  string `json:"from,omitempty"` // for move and copy
	Value any    `json:"value"`          // for add, replace and test
}

// MarshalJSON leaves the value out of operations that have none.
func (o JSONPatchOperation) MarshalJSON() ([]byte, error) {
	type withoutValue struct {
		Op   string `json:"op"`
		Path string `json:"path"`
		From string `json:"from,omitempty"`
	}
	switch o.Op {
	case "add", "replace", "test":
		type withValue JSONPatchOperation
		return json.Marshal(withValue(o))
	case "remove", "move", "copy":
		return json.Marshal(withoutValue{o.Op, o.Path, o.From})
	}
	return nil, fmt.Errorf("the operation %q of a JSON patch; allowed are add, remove, replace, move, copy and test", o.Op)
}

// JSONPatch returns a JSON patch. If one operation fails, such as a test, the API server changes nothing.
func JSONPatch(operations ...JSONPatchOperation) PatchSource {
	return PatchSource{how: types.JSONPatchType, make: func(streams.Object, string, bool) ([]byte, error) {
		if len(operations) == 0 {
			return nil, nil
		}
		return json.Marshal(operations)
	}}
}

// RawPatch returns a patch that is already encoded, of any type but server-side apply: see [Apply].
func RawPatch(how types.PatchType, body []byte) PatchSource {
	return PatchSource{how: how, make: func(streams.Object, string, bool) ([]byte, error) {
		switch how {
		case types.MergePatchType, types.StrategicMergePatchType, types.JSONPatchType:
			return body, nil
		}
		return nil, fmt.Errorf("RawPatch has the type %q; use Apply for server-side apply, or a merge patch, a strategic merge patch or a JSON patch", how)
	}}
}

// Patch changes an object by a patch, and returns it as the API server stored it. It changes the object
// except for the status, unless [Subresource] is given. A patch that would change nothing is not sent:
// Patch then returns a copy of the object before the change.
//
//	changed := service.DeepCopy()
//	changed.Spec.Selector = selector
//	_, err := controller.Patch(ctx, client, changed, controller.MergeFrom(service))
func Patch[T streams.Object](ctx context.Context, c *Client, object T, by PatchSource, options ...WriteOption) (T, error) {
	kind, how, err := c.toWrite(object, by.whole, options, mayNameSubresource|mayBeUnconditional)
	if err == nil && by.make == nil {
		err = errors.New("the patch is empty; use MergeFrom, StrategicMerge, StrategicMergeFrom, JSONPatch or RawPatch")
	}
	if err == nil && by.needsFrom && isNil(by.from) {
		err = errors.New("the object before the change is nil")
	}
	if err == nil && how.unconditional && by.from == nil {
		err = errors.New("Unconditional applies to MergeFrom and StrategicMergeFrom only; leave it out")
	}
	var body []byte
	if err == nil {
		body, err = by.make(object, how.subresource, !how.unconditional)
	}
	if err != nil {
		return *new(T), writeError("patch", kind, object, err)
	}
	if body == nil {
		if by.from == nil {
			return object, nil
		}
		return by.from.DeepCopyObject().(T), nil
	}
	return sendPatch(ctx, c, kind, by.how, "patch", body, object, by.version(object, &how), &how)
}

// PatchStatus changes the status of an object, and nothing else. It is a [Patch] of the subresource
// status.
func PatchStatus[T streams.Object](ctx context.Context, c *Client, object T, by PatchSource, options ...WriteOption) (T, error) {
	return Patch(ctx, c, object, by, slices.Concat(options, []WriteOption{Subresource("status")})...)
}

// selectsPart returns a function that selects the parts of an object that are written with a
// subresource, or without one if subresource is empty.
func selectsPart(subresource string) func(part string) bool {
	return func(part string) bool {
		switch subresource {
		case "":
			return part != "status"
		case "status":
			return part == "status"
		}
		return true // Such as the approval of a certificate, which is a part of the status.
	}
}

// sendPatch sends a patch and handles the answer. version is the one on which the patch is conditional,
// or "".
func sendPatch[T streams.Object](ctx context.Context, c *Client, kind *form, by types.PatchType, verb string, body []byte, object T, version string, how *writing) (T, error) {
	request := kind.to(ctx, how.params(kind.requests.Patch(by), c.fieldManagerOf(ctx)), object.GetNamespace()).
		Name(object.GetName()).SubResource(how.subresources()...)
	patched := kind.as.New()
	err := request.Body(body).Do(ctx).Into(patched)
	// If a write is conditional on a version, an answer with another version can only come from it.
	return wrote(ctx, kind, how, verb, version != "" && patched.GetResourceVersion() != version, object, patched, err)
}
