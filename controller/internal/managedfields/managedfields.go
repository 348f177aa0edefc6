// Package managedfields compares a configuration of server-side apply with the managed fields of an object. So an apply that
// would change nothing need not be sent.
package managedfields

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/value"
)

// Find returns what a field manager has applied to an object, or to a subresource of it.
func Find(object metav1.Object, manager, subresource string) (applied metav1.ManagedFieldsEntry, found bool) {
	for _, entry := range object.GetManagedFields() {
		if entry.Manager == manager && entry.Operation == metav1.ManagedFieldsOperationApply && entry.Subresource == subresource && entry.FieldsV1 != nil {
			return entry, true
		}
	}
	return applied, false
}

// IsApplied reports whether a field manager owns exactly the fields that a configuration sets, and the object holds their
// values. owned are the fields of the manager as JSON: see metav1.FieldsV1. wanted is the configuration, and has the
// object. If the schema of the kind is needed to know, it returns false: then the API server decides.
func IsApplied(owned string, wanted, has map[string]any) bool {
	fields := fieldpath.NewSet()
	return fields.FromJSON(strings.NewReader(owned)) == nil && isApplied(fields, withoutName(wanted), has)
}

// withoutName returns a configuration without the fields that managed fields never have.
func withoutName(content map[string]any) map[string]any {
	named := func(field string) bool { return field == "name" || field == "namespace" }
	kept := map[string]any{}
	for part, value := range content {
		switch metadata, is := value.(map[string]any); {
		case part == "apiVersion" || part == "kind":
		case part == "metadata" && is:
			of := map[string]any{}
			for field, value := range metadata {
				if !named(field) {
					of[field] = value
				}
			}
			if len(of) > 0 {
				kept[part] = of
			}
		default:
			kept[part] = value
		}
	}
	return kept
}

// isApplied reports whether a field manager owns exactly the fields that wanted sets, and has holds their values. If
// the schema of the kind is needed to know, it returns false: then the API server decides.
func isApplied(fields *fieldpath.Set, wanted, has any) bool {
	if fields.Empty() {
		return isSame(wanted, has)
	}
	switch wanted := wanted.(type) {
	case map[string]any:
		has, is := has.(map[string]any)
		return is && areFieldsApplied(fields, wanted, has)
	case []any:
		has, is := has.([]any)
		return is && areItemsApplied(fields, wanted, has)
	}
	return false
}

// areFieldsApplied does what isApplied does, for a map.
func areFieldsApplied(fields *fieldpath.Set, wanted, has map[string]any) bool {
	for name, value := range wanted {
		element := fieldpath.FieldNameElement(name)
		if !isOwned(fields, element) || !isApplied(fields.WithPrefix(element), value, has[name]) {
			return false
		}
	}
	return count(fields) == len(wanted)
}

// areItemsApplied does what isApplied does, for a list whose items have keys or are a set. The order of the items may
// matter, so it must be the same.
func areItemsApplied(fields *fieldpath.Set, wanted, has []any) bool {
	at := 0
	for _, item := range wanted {
		element, found := ownedItem(fields, item)
		if !found {
			return false
		}
		for at < len(has) && !selects(element, has[at]) {
			at++
		}
		if at == len(has) || !isApplied(fields.WithPrefix(element), item, has[at]) {
			return false
		}
		at++
	}
	return count(fields) == len(wanted)
}

// ownedItem returns the path of an item, if exactly one path of the set selects it.
func ownedItem(fields *fieldpath.Set, item any) (found fieldpath.PathElement, one bool) {
	for element := range elements(fields) {
		if selects(element, item) {
			if one {
				return element, false
			}
			found, one = element, true
		}
	}
	return found, one
}

// selects reports whether a path selects an item. The item may leave out fields of the key: the API server sets
// defaults for them, and an object of a Go type leaves out zero values.
func selects(element fieldpath.PathElement, item any) bool {
	switch {
	case element.Value != nil:
		return value.Equals(*element.Value, value.NewValueInterface(item))
	case element.Key == nil:
		return false // An index, or the name of a field.
	}
	fields, is := item.(map[string]any)
	for _, field := range *element.Key {
		if set, has := fields[field.Name]; !is || has && !value.Equals(field.Value, value.NewValueInterface(set)) {
			return false
		}
	}
	return true
}

// isOwned reports whether a set has an element, or fields of it.
func isOwned(fields *fieldpath.Set, element fieldpath.PathElement) bool {
	_, has := fields.Children.Get(element)
	return has || fields.Members.Has(element)
}

// elements iterates over the elements of a set that are members or have fields that are.
func elements(fields *fieldpath.Set) func(yield func(fieldpath.PathElement) bool) {
	return func(yield func(fieldpath.PathElement) bool) {
		for element := range fields.Children.All() {
			if !yield(element) {
				return
			}
		}
		for element := range fields.Members.All() {
			if _, yielded := fields.Children.Get(element); !yielded && !yield(element) {
				return
			}
		}
	}
}

// count returns the number of elements of a set.
func count(fields *fieldpath.Set) (elementsOf int) {
	for range elements(fields) {
		elementsOf++
	}
	return elementsOf
}

// isSame reports whether a value is held as it is wanted. An object of a Go type leaves out values that are zero.
func isSame(wanted, has any) bool {
	if has == nil {
		switch wanted := wanted.(type) {
		case map[string]any:
			return len(wanted) == 0
		case []any:
			return len(wanted) == 0
		}
		return wanted == nil || wanted == false || wanted == "" || wanted == int64(0) || wanted == 0.0
	}
	return value.Equals(value.NewValueInterface(wanted), value.NewValueInterface(has))
}
