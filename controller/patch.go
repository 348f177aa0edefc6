package controller

import (
	"bytes"
	"encoding/json"
	"maps"

	"github.com/bellerophon-io/bellerophon/streams"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
)

// parts are the fields of an object at its top, encoded: spec, status and so on.
type parts map[string]json.RawMessage

func partsOf(object streams.Object) (parts, error) {
	encoded, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	var split parts
	return split, json.Unmarshal(encoded, &split)
}

// mergePatch is the patch from before to after of some of their parts, on condition that
// before is current.
func mergePatch(before, after streams.Object, of func(part string) bool) ([]byte, error) {
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
	for part := range both { // What is not to be patched is not compared: that costs as much as the encoding.
		if !of(part) || bytes.Equal(from[part], to[part]) {
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

// patchOf is the patch of one part, which may be missing in one of the two.
func patchOf(from, to json.RawMessage) (json.RawMessage, error) {
	switch {
	case to == nil:
		return json.RawMessage("null"), nil
	case from == nil || from[0] != '{' || to[0] != '{':
		return to, nil
	}
	return jsonpatch.CreateMergePatch(from, to)
}
