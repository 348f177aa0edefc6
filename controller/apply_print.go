package controller

import (
	"crypto/sha256"
	"encoding/json"
	"maps"

	"github.com/bellerophon-io/bellerophon/streams"
)

// printOf returns a fingerprint of the values that an object has where a configuration sets fields.
func printOf(made application, object streams.Object) ([sha256.Size]byte, error) {
	encoded, err := json.Marshal(object)
	if err != nil {
		return [sha256.Size]byte{}, err
	}
	var content map[string]any
	if err := json.Unmarshal(encoded, &content); err != nil {
		return [sha256.Size]byte{}, err
	}
	set := maps.Clone(made.content)
	delete(set, "apiVersion") // A typed object of the cache has none.
	delete(set, "kind")
	if metadata, has := set["metadata"].(map[string]any); has {
		metadata = maps.Clone(metadata)
		delete(metadata, "resourceVersion") // It is a condition, not a value.
		set["metadata"] = metadata
	}
	encoded, err = json.Marshal(restricted(set, content)) // The keys of maps are sorted.
	return sha256.Sum256(encoded), err
}

// restricted returns a value of an object without the fields that a configuration does not set.
func restricted(set, value any) any {
	switch set := set.(type) {
	case map[string]any:
		of, isMap := value.(map[string]any)
		if !isMap {
			return value
		}
		kept := map[string]any{}
		for name, part := range set {
			if has, known := of[name]; known {
				kept[name] = restricted(part, has)
			}
		}
		return kept
	case []any:
		of, isList := value.([]any)
		if !isList {
			return value
		}
		kept := make([]any, 0, len(set))
		for _, item := range set {
			counterpart, found := counterpartOf(item, of)
			if !found {
				return value // The items have no keys, so that any change of the list counts.
			}
			kept = append(kept, restricted(item, counterpart))
		}
		return kept
	}
	return value
}

// listKeys are the fields that identify an item in Kubernetes' lists: the merge keys of the API types. The
// keys that an item sets identify it.
var listKeys = []string{
	"name", "key", "type", "uid", "ip", "port", "containerPort", "protocol", "mountPath", "devicePath", "topologyKey", "whenUnsatisfiable", "resourceName", "hostname",
}

// counterpartOf returns the one item of a list that has the keys of a given item.
func counterpartOf(item any, of []any) (counterpart any, found bool) {
	fields, isMap := item.(map[string]any)
	if !isMap {
		return nil, false
	}
	keys := map[string]any{}
	for _, key := range listKeys {
		switch value := fields[key].(type) {
		case string, float64, bool:
			keys[key] = value
		}
	}
	if len(keys) == 0 {
		return nil, false
	}
	for _, candidate := range of {
		if !hasAll(candidate, keys) {
			continue
		}
		if found {
			return nil, false
		}
		counterpart, found = candidate, true
	}
	return counterpart, found
}

// hasAll reports whether an item has the given values.
func hasAll(item any, values map[string]any) bool {
	fields, isMap := item.(map[string]any)
	for name, value := range values {
		if !isMap || fields[name] != value {
			return false
		}
	}
	return true
}
