package sourcestest

import (
	"errors"
	"fmt"
	"maps"
	"time"

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

// The functions below write objects as an API server does. The caller holds the lock, and must not
// keep a reference to the object.

func (s *Server) create(place *served, object *unstructured.Unstructured) (*unstructured.Unstructured, error) {
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
		return nil, apierrors.NewBadRequest("resourceVersion should not be set on objects to be created")
	case place.objects[key] != nil:
		return nil, apierrors.NewAlreadyExists(place.GroupResource(), key.Name)
	}
	object.SetGroupVersionKind(place.kind)
	object.SetUID(types.UID(fmt.Sprintf("00000000-0000-4000-8000-%012d", s.made)))
	object.SetCreationTimestamp(metav1.Now().Rfc3339Copy())
	object.SetDeletionTimestamp(nil)
	object.SetManagedFields(nil)
	if _, has := object.Object["spec"]; has {
		object.SetGeneration(1)
	}
	return s.commit(place, key, object), nil
}

func (s *Server) update(place *served, key types.NamespacedName, object *unstructured.Unstructured, part part) (*unstructured.Unstructured, error) {
	before := place.objects[key]
	if before == nil {
		return nil, apierrors.NewNotFound(place.GroupResource(), key.Name)
	}
	if err := onCondition(place, before, object.GetUID(), object.GetResourceVersion()); err != nil {
		return nil, err
	}
	after := object
	switch part {
	case allButStatus:
		replace(after, before, "status")
	case onlyStatus:
		after = before.DeepCopy()
		replace(after, object, "status")
	}
	after.SetGroupVersionKind(place.kind)
	after.SetNamespace(key.Namespace)
	after.SetName(key.Name)
	after.SetUID(before.GetUID())
	after.SetResourceVersion(before.GetResourceVersion())
	after.SetCreationTimestamp(before.GetCreationTimestamp())
	after.SetDeletionTimestamp(before.GetDeletionTimestamp())
	after.SetGeneration(before.GetGeneration())
	after.SetManagedFields(nil)
	if equality.Semantic.DeepEqual(before.Object, after.Object) {
		return before, nil // A write that changes nothing causes no event.
	}
	if !equality.Semantic.DeepEqual(before.Object["spec"], after.Object["spec"]) {
		after.SetGeneration(before.GetGeneration() + 1)
	}
	stored := s.commit(place, key, after)
	if after.GetDeletionTimestamp() != nil && len(after.GetFinalizers()) == 0 {
		return s.commit(place, key, nil), nil
	}
	return stored, nil
}

func replace(in, from *unstructured.Unstructured, name string) {
	delete(in.Object, name)
	if value, has := from.DeepCopy().Object[name]; has {
		in.Object[name] = value
	}
}

// remove deletes an object, or marks it for deletion while it has finalizers. It returns the last
// state of the object.
func (s *Server) remove(place *served, key types.NamespacedName, conditions metav1.Preconditions) (*unstructured.Unstructured, error) {
	before := place.objects[key]
	if before == nil {
		return nil, apierrors.NewNotFound(place.GroupResource(), key.Name)
	}
	var uid types.UID
	if conditions.UID != nil {
		uid = *conditions.UID
	}
	var version string
	if conditions.ResourceVersion != nil {
		version = *conditions.ResourceVersion
	}
	if err := onCondition(place, before, uid, version); err != nil {
		return nil, err
	}
	switch {
	case len(before.GetFinalizers()) == 0:
		return s.commit(place, key, nil), nil
	case before.GetDeletionTimestamp() != nil:
		return before, nil
	}
	after := before.DeepCopy()
	now := metav1.NewTime(time.Now().Truncate(time.Second))
	after.SetDeletionTimestamp(&now)
	return s.commit(place, key, after), nil
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
