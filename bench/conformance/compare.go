package conformance

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// content returns the compared part of a child: everything except its status and the fields that
// the API server sets with each write. Additional annotations are not compared, because
// frameworks store notes in them. See foreignAnnotations.
func content(object *unstructured.Unstructured) map[string]any {
	copied := runtime.DeepCopyJSON(object.Object)
	metadata, _ := copied["metadata"].(map[string]any)
	kept := map[string]any{}
	for _, field := range []string{"name", "labels", "ownerReferences", "finalizers"} {
		if value, found := metadata[field]; found {
			kept[field] = value
		}
	}
	copied["metadata"] = kept
	delete(copied, "status")
	return copied
}

// foreignAnnotations returns the keys of a child's annotations. The contract defines none on a
// child itself.
func foreignAnnotations(object *unstructured.Unstructured) []string {
	return slices.Sorted(maps.Keys(object.GetAnnotations()))
}

// same returns nil if two objects have the same content. Otherwise the error lists each field
// that differs.
func same(want, got *unstructured.Unstructured) error {
	differences := diff("", sorted(content(want)), sorted(content(got)))
	if len(differences) == 0 {
		return nil
	}
	return errors.New(strings.Join(differences, "; "))
}

// has returns nil if got has everything that want has. got may have more.
func has(want, got *unstructured.Unstructured) error {
	differences := slices.DeleteFunc(diff("", sorted(content(want)), sorted(content(got))),
		func(difference string) bool { return strings.HasSuffix(difference, unexpected) })
	if len(differences) == 0 {
		return nil
	}
	return errors.New(strings.Join(differences, "; "))
}

// unexpected is the suffix of a difference for a field that should not be set.
const unexpected = "want it unset"

// sorted converts lists whose items have a key into maps, because their order does not matter.
func sorted(value any) any {
	switch value := value.(type) {
	case map[string]any:
		for key, inner := range value {
			value[key] = sorted(inner)
		}
	case []any:
		byKey := map[string]any{}
		for i, item := range value {
			value[i] = sorted(item)
			if key := keyOf(value[i]); key != "" {
				byKey[key] = value[i]
			}
		}
		if len(value) > 0 && len(byKey) == len(value) {
			return byKey
		}
	}
	return value
}

// keyOf returns the key of an item in its list, or an empty string if it has none.
func keyOf(item any) string {
	fields, _ := item.(map[string]any)
	for _, name := range []string{"mountPath", "uid", "name"} {
		if text, _ := fields[name].(string); text != "" {
			return text
		}
	}
	return ""
}

// diff returns a line for each field that differs, with the actual and the wanted value.
func diff(path string, want, got any) []string {
	wantFields, wantMap := want.(map[string]any)
	gotFields, gotMap := got.(map[string]any)
	if !wantMap || !gotMap {
		if reflect.DeepEqual(want, got) {
			return nil
		}
		return []string{fmt.Sprintf("%s is %v, want %v", path, got, want)}
	}
	var found []string
	for _, name := range slices.Sorted(maps.Keys(wantFields)) {
		value, there := gotFields[name]
		if !there {
			found = append(found, fmt.Sprintf("%s.%s is missing, want %v", path, name, wantFields[name]))
			continue
		}
		found = append(found, diff(path+"."+name, wantFields[name], value)...)
	}
	for _, name := range slices.Sorted(maps.Keys(gotFields)) {
		if _, there := wantFields[name]; !there {
			found = append(found, fmt.Sprintf("%s.%s is %v, %s", path, name, gotFields[name], unexpected))
		}
	}
	return found
}
