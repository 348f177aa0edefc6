package controller

import (
	"errors"
	"fmt"
	"slices"

	"github.com/bellerophon-io/bellerophon/streams"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// ErrOtherController is wrapped in the error of [SetControllerReference] for an object that another
// object controls.
var ErrOtherController = errors.New("another object controls it")

// SetControllerReference makes owner the controller of an object that is about to be written. The
// garbage collector then deletes the object with its owner, and [Owns] finds the owner. If owner
// controls the object already, its reference is brought up to date.
//
// It fails if another object controls the object, and if owner has a namespace that the object does not
// have: the garbage collector would delete the object at once. An owner without a namespace may own
// objects of any namespace. The kind of owner must be declared by a controller.
func SetControllerReference(c *Client, owner, object streams.Object) error {
	kind, err := c.named(owner)
	if err != nil {
		return fmt.Errorf("cannot own %s: %w", nameOf(object), err)
	}
	of := fmt.Sprintf("%s cannot own %T %s", streams.KeyOf(kind.as.GroupKind(), owner), object, nameOf(object))
	switch {
	case owner.GetUID() == "":
		return fmt.Errorf("%s: the owner has no uid; give it as the API server stored it", of)
	case owner.GetNamespace() != "" && owner.GetNamespace() != object.GetNamespace():
		return fmt.Errorf("%s: an owner with a namespace owns objects of its own namespace only", of)
	}
	wanted := metav1.NewControllerRef(owner, kind.as.GroupVersionKind)
	references := slices.Clone(object.GetOwnerReferences())
	for _, known := range references {
		if known.Controller != nil && *known.Controller && !refersTo(known, wanted) {
			return fmt.Errorf("%s: %w: %s %s", of, ErrOtherController, known.Kind, known.Name)
		}
	}
	references = slices.DeleteFunc(references, func(known metav1.OwnerReference) bool { return refersTo(known, wanted) })
	object.SetOwnerReferences(append(references, *wanted))
	return nil
}

// refersTo reports whether two references are to the same object, in whatever version of its kind.
func refersTo(one metav1.OwnerReference, other *metav1.OwnerReference) bool {
	group := func(version string) string {
		parsed, err := schema.ParseGroupVersion(version)
		if err != nil {
			return version
		}
		return parsed.Group
	}
	return one.UID == other.UID && one.Kind == other.Kind && one.Name == other.Name && group(one.APIVersion) == group(other.APIVersion)
}
