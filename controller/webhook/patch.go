package webhook

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// operation is one operation of a JSON patch.
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

// MarshalJSON keeps the value of an operation that has one, even if it is null.
func (o operation) MarshalJSON() ([]byte, error) {
	content := map[string]any{"op": o.Op, "path": o.Path}
	if o.Op != "remove" {
		content["value"] = o.Value
	}
	return json.Marshal(content)
}

// patchOf returns a JSON patch of an object as the API server sent it. The patch makes the change that a
// function made to a typed object: from before to after, both as JSON. It is nil if nothing changed. Zero
// values that a Go type always encodes, and fields that it does not have, make no difference.
func patchOf(raw, before, after []byte) ([]byte, error) {
	var values [3]any
	for i, encoded := range [][]byte{raw, before, after} {
		if err := utiljson.Unmarshal(encoded, &values[i]); err != nil { // It keeps large integers.
			return nil, err
		}
	}
	operations := difference(nil, "", values[0], changed(values[0], values[1], values[2]))
	if len(operations) == 0 {
		return nil, nil
	}
	return json.Marshal(operations)
}

// changed returns a value with the change from before to after.
func changed(value, before, after any) any {
	if reflect.DeepEqual(before, after) {
		return value
	}
	switch after := after.(type) {
	case map[string]any:
		before, wasMap := before.(map[string]any)
		if !wasMap {
			return after
		}
		has, _ := value.(map[string]any) // A struct that holds only zero values may be missing.
		made := make(map[string]any, len(has)+len(after))
		maps.Copy(made, has)
		for name := range before {
			if _, kept := after[name]; !kept {
				delete(made, name)
			}
		}
		for name, wanted := range after {
			old, known := before[name]
			if !known || !reflect.DeepEqual(old, wanted) {
				made[name] = changed(has[name], old, wanted)
			}
		}
		return made
	case []any:
		before, wasList := before.([]any)
		has, isList := value.([]any)
		if wasList && isList && len(has) == len(before) {
			return changedList(has, before, after)
		}
	}
	return after
}

// changedList returns a list with the change from before to after. An element that moved is recognized if
// it was not changed as well.
func changedList(values, before, after []any) []any {
	made := make([]any, len(after))
	for i, wanted := range after {
		if len(before) == len(after) && reflect.DeepEqual(before[i], wanted) {
			made[i] = values[i]
			continue
		}
		at := slices.IndexFunc(before, func(old any) bool { return reflect.DeepEqual(old, wanted) })
		switch {
		case at >= 0:
			made[i] = values[at]
		case len(before) == len(after):
			made[i] = changed(values[i], before[i], wanted)
		default:
			made[i] = wanted
		}
	}
	return made
}

// difference appends the operations that turn one value into another.
func difference(operations []operation, path string, from, to any) []operation {
	if reflect.DeepEqual(from, to) {
		return operations
	}
	switch to := to.(type) {
	case map[string]any:
		from, isMap := from.(map[string]any)
		if !isMap {
			break
		}
		for _, name := range slices.Sorted(maps.Keys(from)) {
			if _, kept := to[name]; !kept {
				operations = append(operations, operation{Op: "remove", Path: path + "/" + escaped(name)})
			}
		}
		for _, name := range slices.Sorted(maps.Keys(to)) {
			below := path + "/" + escaped(name)
			if old, known := from[name]; known {
				operations = difference(operations, below, old, to[name])
			} else {
				operations = append(operations, operation{Op: "add", Path: below, Value: to[name]})
			}
		}
		return operations
	case []any:
		from, isList := from.([]any)
		if !isList {
			break
		}
		for i := range min(len(from), len(to)) {
			operations = difference(operations, path+"/"+strconv.Itoa(i), from[i], to[i])
		}
		for i := len(from) - 1; i >= len(to); i-- {
			operations = append(operations, operation{Op: "remove", Path: path + "/" + strconv.Itoa(i)})
		}
		for i := len(from); i < len(to); i++ {
			operations = append(operations, operation{Op: "add", Path: path + "/-", Value: to[i]})
		}
		return operations
	}
	return append(operations, operation{Op: "replace", Path: path, Value: to})
}

// escaped returns the name of a field as a part of a JSON pointer.
func escaped(name string) string {
	return strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
}
