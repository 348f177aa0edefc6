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

// content is what is compared of a child: all but its status, and but what the API server
// makes of each write. Annotations of its own are not compared: frameworks keep notes
// there. See foreignAnnotations.
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

// foreignAnnotations are those of a child that the contract does not know.
func foreignAnnotations(object *unstructured.Unstructured) []string {
	return slices.Sorted(maps.Keys(object.GetAnnotations()))
}

// same is nil if two objects have the same content, or says each field that differs.
func same(want, got *unstructured.Unstructured) error {
	differences := diff("", sorted(content(want)), sorted(content(got)))
	if len(differences) == 0 {
		return nil
	}
	return errors.New(strings.Join(differences, "; "))
}

// has is nil if got has all that want has; it may have more.
func has(want, got *unstructured.Unstructured) error {
	differences := slices.DeleteFunc(diff("", sorted(content(want)), sorted(content(got))),
		func(difference string) bool { return strings.HasSuffix(difference, unexpected) })
	if len(differences) == 0 {
		return nil
	}
	return errors.New(strings.Join(differences, "; "))
}

// unexpected ends the difference of a field that should not be there.
const unexpected = "which nobody asked for"

// sorted turns lists whose items have a key into maps: their order says nothing.
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

// keyOf is what tells an item from others of its list, or nothing.
func keyOf(item any) string {
	fields, _ := item.(map[string]any)
	for _, name := range []string{"mountPath", "uid", "name"} {
		if text, _ := fields[name].(string); text != "" {
			return text
		}
	}
	return ""
}

// diff says of each field that differs what it is and what it should be.
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
