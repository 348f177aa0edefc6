package controller

import (
	"bytes"
	"encoding/json"
	"maps"
	"reflect"

	"github.com/bellerophon-io/bellerophon/streams"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
)

// parts holds the top-level fields of an object, encoded: spec, status and so on.
type parts map[string]json.RawMessage

// partsOf returns the parts of an object.
func partsOf(object streams.Object) (parts, error) {
	encoded, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	var split parts
	return split, json.Unmarshal(encoded, &split)
}

// changedParts returns the parts that differ in two states of an object and that selected reports. The
// resource version is no difference: it is the condition of a patch, or of none.
func changedParts(before, after streams.Object, selected func(part string) bool) (from, to parts, err error) {
	if from, err = partsOf(before); err != nil {
		return nil, nil, err
	}
	if after.GetResourceVersion() != before.GetResourceVersion() {
		after = after.DeepCopyObject().(streams.Object)
		after.SetResourceVersion(before.GetResourceVersion())
	}
	if to, err = partsOf(after); err != nil {
		return nil, nil, err
	}
	unneeded := func(part string, _ json.RawMessage) bool {
		return !selected(part) || bytes.Equal(from[part], to[part])
	}
	both := maps.Clone(from)
	maps.Copy(both, to)
	for part, value := range both {
		if unneeded(part, value) {
			delete(from, part)
			delete(to, part)
		}
	}
	return from, to, nil
}

// mergePatch returns the merge patch from before to after, for the parts that selected reports, or nil if
// nothing differs. If conditional is true, the patch has the resource version of before, so that it fails
// if the object has changed.
func mergePatch(before, after streams.Object, selected func(part string) bool, conditional bool) ([]byte, error) {
	from, to, err := changedParts(before, after, selected)
	if err != nil {
		return nil, err
	}
	changed := parts{}
	for part := range from {
		if to[part] == nil {
			changed[part] = json.RawMessage("null")
		}
	}
	for part, value := range to {
		if changed[part], err = patchOf(from[part], value); err != nil {
			return nil, err
		}
		if string(changed[part]) == "{}" && from[part] != nil {
			delete(changed, part)
		}
	}
	return encodeChanged(changed, before, conditional)
}

// patchOf returns the merge patch of one part, which may be missing in from. It is null if nothing
// differs but the encoding.
func patchOf(from, to json.RawMessage) (json.RawMessage, error) {
	if from == nil || from[0] != '{' || to[0] != '{' {
		return to, nil
	}
	var before, after map[string]any
	if err := utiljson.Unmarshal(from, &before); err != nil { // It keeps large integers.
		return nil, err
	}
	if err := utiljson.Unmarshal(to, &after); err != nil {
		return nil, err
	}
	return json.Marshal(differing(before, after))
}

// differing returns the merge patch from one map to another: see RFC 7386.
func differing(before, after map[string]any) map[string]any {
	patch := map[string]any{}
	for name := range before {
		if _, kept := after[name]; !kept {
			patch[name] = nil
		}
	}
	for name, value := range after {
		former, known := before[name]
		from, fromMap := former.(map[string]any)
		to, toMap := value.(map[string]any)
		switch {
		case known && reflect.DeepEqual(former, value):
		case known && fromMap && toMap:
			patch[name] = differing(from, to)
		default:
			patch[name] = value
		}
	}
	return patch
}

// strategicPatch returns what mergePatch does, as a strategic merge patch.
func strategicPatch(before, after streams.Object, selected func(part string) bool, conditional bool) ([]byte, error) {
	from, to, err := changedParts(before, after, selected)
	if err != nil {
		return nil, err
	}
	fromJSON, err := json.Marshal(from)
	if err != nil {
		return nil, err
	}
	toJSON, err := json.Marshal(to)
	if err != nil {
		return nil, err
	}
	patch, err := strategicpatch.CreateTwoWayMergePatch(fromJSON, toJSON, after)
	if err != nil {
		return nil, err
	}
	changed := parts{}
	if err := json.Unmarshal(patch, &changed); err != nil {
		return nil, err
	}
	return encodeChanged(changed, before, conditional)
}

// encodeChanged encodes the changed parts of an object, or returns nil if there are none.
func encodeChanged(changed parts, before streams.Object, conditional bool) ([]byte, error) {
	if len(changed) == 0 {
		return nil, nil
	}
	field, value := "resourceVersion", before.GetResourceVersion()
	if !conditional { // The object may have changed, but another object of its name must not get the patch.
		field, value = "uid", string(before.GetUID())
	}
	if value != "" {
		metadata := parts{}
		if known := changed["metadata"]; known != nil {
			if err := json.Unmarshal(known, &metadata); err != nil {
				return nil, err
			}
		}
		var err error
		if metadata[field], err = json.Marshal(value); err != nil {
			return nil, err
		}
		if changed["metadata"], err = json.Marshal(metadata); err != nil {
			return nil, err
		}
	}
	return json.Marshal(changed)
}
