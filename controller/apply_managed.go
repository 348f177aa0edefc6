package controller

import (
	"strings"
	"unique"

	"github.com/bellerophon-io/bellerophon/sources"
	"github.com/bellerophon-io/bellerophon/streams"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/value"
)

// managed is what the managed fields of an object say about one field manager: the version of the kind that it has
// applied, and the paths of the fields, as JSON. Objects of one controller mostly have the same. So the text is
// stored once, and the cache needs no managed fields.
type managed struct{ apiVersion, fields string }

// keepingManaged returns the Transform of a watch. It records what the field managers of this process have applied
// to each object, before it changes the object as the options say. The record shows whether an [Apply] would
// change something that an earlier process has applied.
func (c *Client) keepingManaged(watched *watched) func(streams.Object) {
	transform := watched.options.Transform
	if watched.kind.HasPart() { // Apply needs the whole object.
		return transform
	}
	return func(object streams.Object) {
		c.recordManaged(watched.kind, object)
		if transform != nil {
			transform(object)
			return
		}
		sources.DropManagedFields(object)
	}
}

// recordManaged records what the field managers of this process have applied to an object of a list or a watch. Once
// this process has applied to it, the answer counts instead.
func (c *Client) recordManaged(kind sources.Kind, object streams.Object) {
	for _, entry := range object.GetManagedFields() {
		if entry.Operation != metav1.ManagedFieldsOperationApply || entry.FieldsV1 == nil || !c.isFieldManager(entry.Manager) {
			continue
		}
		key := appliedKey{kind.GroupKind(), nameOf(object), entry.Manager, entry.Subresource}
		fields := unique.Make(managed{entry.APIVersion, entry.FieldsV1.GetRawString()})
		c.applying.Lock()
		if last, known := c.applied.Peek(key); !known || last.isManaged() {
			c.applied.Add(key, applied{uid: object.GetUID(), version: object.GetResourceVersion(), managed: fields})
		}
		c.applying.Unlock()
	}
}

// isFieldManager reports whether writes of this process have the field manager, unless a write names another one.
func (c *Client) isFieldManager(name string) bool {
	options := &c.manager.options
	if name == options.FieldManager || name == options.UserAgent {
		return true
	}
	members := c.manager.present.Load().members
	if members[name] != nil {
		return true
	}
	for _, member := range members {
		if member.fieldManager == name {
			return true
		}
	}
	return false
}

// isManaged reports whether only the managed fields tell about the apply.
func (a applied) isManaged() bool { return a.managed != unique.Handle[managed]{} }

// stillApplied reports whether an apply of a configuration would change nothing. held is the object at the version
// with these managed fields.
func (m managed) stillApplied(made application, held streams.Object) bool {
	fields := fieldpath.NewSet()
	if m.apiVersion != made.object().GetAPIVersion() || fields.FromJSON(strings.NewReader(m.fields)) != nil {
		return false
	}
	has, err := contentOf(held)
	return err == nil && isApplied(fields, withoutName(made.content), has)
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
