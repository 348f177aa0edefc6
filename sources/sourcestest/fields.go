package sourcestest

import (
	"fmt"
	"strings"
	"sync"
	"unicode"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/client-go/applyconfigurations"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
)

// fieldManager returns what merges applied objects of a kind and records who set which field. The caller
// holds the lock.
func (s *Server) fieldManager(place *served, subresource string) (*managedfields.FieldManager, error) {
	if made := place.managers[subresource]; made != nil {
		return made, nil
	}
	types := s.typesOf(place)
	made, err := managedfields.NewDefaultCRDFieldManager(types, sameVersion{}, sameVersion{}, sameVersion{}, place.kind, place.kind.GroupVersion(), subresource, nil)
	if err != nil {
		return nil, fmt.Errorf("preparing server-side apply for %v: %w", place.kind, err)
	}
	if place.managers == nil {
		place.managers = map[string]*managedfields.FieldManager{}
	}
	place.managers[subresource] = made
	return made, nil
}

// typesOf returns the schema of a kind: of Kubernetes itself if the kind is built in, else the schema that
// API servers use for a resource definition that preserves unknown fields.
func (s *Server) typesOf(place *served) managedfields.TypeConverter {
	if place.builtIn {
		types := applyconfigurations.NewTypeConverter(s.options.Scheme)
		if _, err := types.ObjectToTyped(empty(place.kind)); err == nil {
			return types
		}
	}
	return schemaless{managedfields.NewDeducedTypeConverter()}
}

func empty(kind schema.GroupVersionKind) *unstructured.Unstructured {
	made := &unstructured.Unstructured{Object: map[string]any{}}
	made.SetGroupVersionKind(kind)
	return made
}

// schemaless has the types of objects whose kind has no schema: their metadata has one, and the types of
// other fields are deduced.
type schemaless struct{ managedfields.TypeConverter }

var metadataSchema = sync.OnceValues(func() (*typed.Parser, error) {
	return typed.NewParser(`types:
- name: object
  map:
    fields:
    - {name: apiVersion, type: {scalar: string}}
    - {name: kind, type: {scalar: string}}
    - {name: metadata, type: {namedType: metadata}}
    elementType: {namedType: deduced}
- name: metadata
  map:
    fields:
    - name: finalizers
      type:
        list: {elementType: {scalar: string}, elementRelationship: associative}
    - name: ownerReferences
      type:
        list: {elementType: {namedType: atomic}, elementRelationship: associative, keys: [uid]}
    elementType: {namedType: deduced}
- name: atomic
  scalar: untyped
  list: {elementType: {namedType: atomic}, elementRelationship: atomic}
  map: {elementType: {namedType: atomic}, elementRelationship: atomic}
- name: deduced
  scalar: untyped
  list: {elementType: {namedType: atomic}, elementRelationship: atomic}
  map: {elementType: {namedType: deduced}, elementRelationship: separable}
`)
})

// ObjectToTyped returns an object with its types.
func (schemaless) ObjectToTyped(object runtime.Object, options ...typed.ValidationOptions) (*typed.TypedValue, error) {
	parser, err := metadataSchema()
	if err != nil {
		return nil, err
	}
	content, is := object.(*unstructured.Unstructured)
	if !is {
		return nil, fmt.Errorf("finding the types of a %T; want an *unstructured.Unstructured", object)
	}
	return parser.Type("object").FromUnstructured(content.Object, options...)
}

// sameVersion converts nothing, sets no defaults and makes empty objects: the server stores each version
// of a kind separately, as maps.
type sameVersion struct{}

// Convert returns an error, because nothing calls it.
func (sameVersion) Convert(in, out, context any) error {
	return fmt.Errorf("converting a %T: the fake API server converts nothing", in)
}

// ConvertToVersion returns the same object.
func (sameVersion) ConvertToVersion(in runtime.Object, _ runtime.GroupVersioner) (runtime.Object, error) {
	return in, nil
}

// ConvertFieldLabel returns the same label.
func (sameVersion) ConvertFieldLabel(_ schema.GroupVersionKind, label, value string) (string, string, error) {
	return label, value, nil
}

// Default sets nothing.
func (sameVersion) Default(runtime.Object) {}

// New returns an object without content.
func (sameVersion) New(kind schema.GroupVersionKind) (runtime.Object, error) { return empty(kind), nil }

// record sets the managed fields of an object that is about to be stored. Before is nil for a creation.
func (s *Server) record(place *served, before, after *unstructured.Unstructured, how writing) {
	from := before
	switch {
	case how.applied:
		return
	case before == nil && s.options.ManagedFields:
		from = empty(place.kind)
	case before == nil || len(before.GetManagedFields()) == 0:
		after.SetManagedFields(nil)
		return
	}
	// Like an API server, the fake keeps the managed fields as they were if the object does not match its schema.
	manager, err := s.fieldManager(place, how.part.subresource())
	if err == nil {
		_, err = manager.Update(from, after, how.manager)
	}
	if err != nil {
		after.SetManagedFields(from.GetManagedFields())
	}
}

// managerOf returns the manager of a write: the one in the request, or the name of the client's program.
func managerOf(given, userAgent string) string {
	if given != "" {
		return given
	}
	name, _, _ := strings.Cut(userAgent, "/")
	name = strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return -1
	}, name)
	return name[:min(len(name), longestManager)]
}

const longestManager = 128 // bytes

// changesNothing reports whether two states of an object differ at most in the times of their managed fields.
func changesNothing(before, after *unstructured.Unstructured) bool {
	if equality.Semantic.DeepEqual(before.Object, after.Object) {
		return true
	}
	if len(before.GetManagedFields()) == 0 || len(after.GetManagedFields()) == 0 {
		return false
	}
	return equality.Semantic.DeepEqual(timeless(before).Object, timeless(after).Object)
}

func timeless(object *unstructured.Unstructured) *unstructured.Unstructured {
	object = object.DeepCopy()
	managed := object.GetManagedFields()
	for i := range managed {
		managed[i].Time = nil
	}
	object.SetManagedFields(managed)
	return object
}
