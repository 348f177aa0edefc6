package sourcestest

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// part is the part of an object that an update changes.
type part int

const (
	whole part = iota
	allButStatus
	onlyStatus
)

// subresource returns the name of the part in a URL.
func (p part) subresource() string {
	if p == onlyStatus {
		return "status"
	}
	return ""
}

// writing says how an object is written.
type writing struct {
	part    part
	manager string // whom the managed fields name
	applied bool   // the object has its managed fields already
	dryRun  bool   // nothing is stored
}

// tests is how the functions of a Server write that tests call.
var tests = writing{part: whole, manager: "sourcestest"}

// The functions below write objects as an API server does. The caller holds the lock, and must not
// keep a reference to the object.

func (s *Server) create(place *served, object *unstructured.Unstructured, how writing) (*unstructured.Unstructured, error) {
	s.made++
	if object.GetName() == "" && object.GetGenerateName() != "" {
		object.SetName(fmt.Sprintf("%s%05d", object.GetGenerateName(), s.made))
	}
	key := keyOf(object)
	switch {
	case key.Name == "":
		missing := field.Required(field.NewPath("metadata", "name"), "name or generateName is required")
		return nil, apierrors.NewInvalid(place.kind.GroupKind(), "", field.ErrorList{missing})
	case object.GetResourceVersion() != "":
		return nil, errors.New("resourceVersion should not be set on objects to be created")
	case place.objects[key] != nil:
		return nil, apierrors.NewAlreadyExists(place.GroupResource(), key.Name)
	}
	object.SetGroupVersionKind(place.kind)
	dropEmpty(object)
	s.record(place, nil, object, how)
	object.SetUID(types.UID(fmt.Sprintf("00000000-0000-4000-8000-%012d", s.made)))
	object.SetCreationTimestamp(metav1.Now().Rfc3339Copy())
	object.SetDeletionTimestamp(nil)
	object.SetDeletionGracePeriodSeconds(nil)
	if _, has := object.Object["spec"]; has || !place.builtIn {
		object.SetGeneration(1)
	}
	if how.dryRun {
		return object, nil
	}
	return s.commit(place, key, object), nil
}

func (s *Server) update(place *served, key types.NamespacedName, object *unstructured.Unstructured, how writing) (*unstructured.Unstructured, error) {
	before := place.objects[key]
	if before == nil {
		return nil, apierrors.NewNotFound(place.GroupResource(), key.Name)
	}
	if err := onCondition(place, before, object.GetUID(), object.GetResourceVersion()); err != nil {
		return nil, err
	}
	after := object
	switch how.part {
	case allButStatus:
		replace(after, before, "status")
	case onlyStatus:
		after = before.DeepCopy()
		replace(after, object, "status")
		if how.applied {
			after.SetManagedFields(object.GetManagedFields())
		}
	}
	after.SetGroupVersionKind(place.kind)
	after.SetNamespace(key.Namespace)
	after.SetName(key.Name)
	after.SetUID(before.GetUID())
	after.SetResourceVersion(before.GetResourceVersion())
	after.SetCreationTimestamp(before.GetCreationTimestamp())
	after.SetDeletionTimestamp(before.GetDeletionTimestamp())
	after.SetDeletionGracePeriodSeconds(before.GetDeletionGracePeriodSeconds())
	after.SetGeneration(before.GetGeneration())
	dropEmpty(after)
	s.record(place, before, after, how)
	if changesNothing(before, after) {
		return before, nil // A write that changes nothing causes no event.
	}
	if err := noNewFinalizers(place, before, after); err != nil {
		return nil, err
	}
	if place.isNewGeneration(before, after) {
		after.SetGeneration(before.GetGeneration() + 1)
	}
	switch {
	case how.dryRun:
		return after, nil
	case after.GetDeletionTimestamp() != nil && len(after.GetFinalizers()) == 0:
		s.commit(place, key, nil) // The object goes without an event for its last update.
		return after, nil
	}
	return s.commit(place, key, after), nil
}

// isNewGeneration reports whether a write changes what the generation counts: the spec of a built-in kind, and all
// but the metadata and the status of a custom resource.
func (s *served) isNewGeneration(before, after *unstructured.Unstructured) bool {
	if s.builtIn {
		return !equality.Semantic.DeepEqual(before.Object["spec"], after.Object["spec"])
	}
	for _, pair := range [][2]*unstructured.Unstructured{{before, after}, {after, before}} {
		for name, value := range pair[0].Object {
			if name != "metadata" && name != "status" && !equality.Semantic.DeepEqual(value, pair[1].Object[name]) {
				return true
			}
		}
	}
	return false
}

// dropEmpty removes empty maps and lists from the metadata, which no API server stores.
func dropEmpty(object *unstructured.Unstructured) {
	metadata, _ := object.Object["metadata"].(map[string]any)
	for _, name := range []string{"labels", "annotations", "finalizers", "ownerReferences"} {
		switch value := metadata[name].(type) {
		case nil:
			delete(metadata, name)
		case map[string]any:
			if len(value) == 0 {
				delete(metadata, name)
			}
		case []any:
			if len(value) == 0 {
				delete(metadata, name)
			}
		}
	}
}

func replace(in, from *unstructured.Unstructured, name string) {
	delete(in.Object, name)
	if value, has := from.DeepCopy().Object[name]; has {
		in.Object[name] = value
	}
}

// noNewFinalizers fails if a finalizer is added to an object that is being deleted.
func noNewFinalizers(place *served, before, after *unstructured.Unstructured) error {
	if before.GetDeletionTimestamp() == nil {
		return nil
	}
	var added []string
	for _, finalizer := range after.GetFinalizers() {
		if !slices.Contains(before.GetFinalizers(), finalizer) {
			added = append(added, finalizer)
		}
	}
	if len(added) == 0 {
		return nil
	}
	forbidden := field.Forbidden(field.NewPath("metadata", "finalizers"),
		fmt.Sprintf("no new finalizers can be added if the object is being deleted, found new finalizers %#v", added))
	return apierrors.NewInvalid(place.kind.GroupKind(), after.GetName(), field.ErrorList{forbidden})
}

// onCondition fails if uid or version is set and the object has another one.
func onCondition(place *served, object *unstructured.Unstructured, uid types.UID, version string) error {
	var why error
	switch {
	case uid != "" && uid != object.GetUID():
		why = fmt.Errorf("the UID in the precondition: %s, the UID in record: %s", uid, object.GetUID())
	case version != "" && version != object.GetResourceVersion():
		why = errors.New("the object has been modified; please apply your changes to the latest version and try again")
	default:
		return nil
	}
	return apierrors.NewConflict(place.GroupResource(), object.GetName(), why)
}

// uninstall removes a kind: its objects are deleted, and its watches send the deletions and end.
func (s *Server) uninstall(place *served) {
	for key := range maps.Clone(place.objects) {
		s.commit(place, key, nil)
	}
	place.gone = true
	for watch := range s.watches {
		if watch.selected.place == place {
			watch.endWhenSent()
		}
	}
}
