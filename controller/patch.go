package controller

import (
	"bytes"
	"encoding/json"
	"maps"

	"github.com/bellerophon-io/bellerophon/streams"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
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

// mergePatch returns the merge patch from before to after, for the parts that selected reports. The patch
// has the resource version of before, so that it fails if the object has changed.
func mergePatch(before, after streams.Object, selected func(part string) bool) ([]byte, error) {
	from, err := partsOf(before)
	if err != nil {
		return nil, err
	}
	to, err := partsOf(after)
	if err != nil {
		return nil, err
	}
	changed := parts{}
	both := maps.Clone(from)
	maps.Copy(both, to)
	for part := range both { // Skip the other parts first: a comparison costs as much as the encoding.
		if !selected(part) || bytes.Equal(from[part], to[part]) {
			continue
		}
		if changed[part], err = patchOf(from[part], to[part]); err != nil {
			return nil, err
		}
	}
	metadata := parts{}
	if known := changed["metadata"]; known != nil {
		if err := json.Unmarshal(known, &metadata); err != nil {
			return nil, err
		}
	}
	if metadata["resourceVersion"], err = json.Marshal(before.GetResourceVersion()); err != nil {
		return nil, err
	}
	if changed["metadata"], err = json.Marshal(metadata); err != nil {
		return nil, err
	}
	return json.Marshal(changed)
}

// patchOf returns the patch of one part, which may be missing in from or in to.
func patchOf(from, to json.RawMessage) (json.RawMessage, error) {
	switch {
	case to == nil:
		return json.RawMessage("null"), nil
	case from == nil || from[0] != '{' || to[0] != '{':
		return to, nil
	}
	return jsonpatch.CreateMergePatch(from, to)
}
