package controller

import (
	"errors"
	"fmt"
	"slices"

	"github.com/bellerophon-io/bellerophon/streams"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// ErrOtherController is wrapped in the error of [SetControllerReference] and of [Apply] for an object that
// another object controls.
var ErrOtherController = errors.New("another object controls it")

// ErrFormerOwner is wrapped in the error of [SetControllerReference] and of [Apply] for an object that an
// earlier object with the name of its owner controls: the owner was deleted and made again. It wraps
// [ErrOtherController] too.
var ErrFormerOwner = fmt.Errorf("%w: an earlier owner of the same name, which was deleted; the garbage collector deletes the object too, "+
	"or remove its owner reference to keep it", ErrOtherController)

// controlledBy returns an error if another object than the wanted one controls an object that has the given
// owners.
func controlledBy(owners []metav1.OwnerReference, wanted *metav1.OwnerReference) error {
	for _, known := range owners {
		switch {
		case known.Controller == nil || !*known.Controller || refersTo(known, wanted):
		case isNamed(known, wanted):
			return fmt.Errorf("%w (%s %s had the uid %s, and has %s)", ErrFormerOwner, known.Kind, known.Name, known.UID, wanted.UID)
		default:
			return fmt.Errorf("%w: %s %s", ErrOtherController, known.Kind, known.Name)
		}
	}
	return nil
}

// SetControllerReference makes owner the controller of an object that is about to be written. The
// garbage collector then deletes the object with its owner, and [Owns] finds the owner. If owner
// controls the object already, its reference is brought up to date.
//
// It fails with [ErrOtherController] or [ErrFormerOwner] if another object controls the object. It also fails
// if owner has a namespace that the object does not have: the garbage collector would delete the object at
// once. An owner without a namespace may own objects of any namespace. The kind of owner must be declared
// by a controller. An object of a kind without namespaces may have its namespace set. It does not count
// if the kind is declared and the API server has shown its scope.
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
	case owner.GetNamespace() != "" && c.isUnscoped(object):
		return fmt.Errorf("%s: an owner with a namespace cannot own an object whose kind has no namespaces", of)
	}
	wanted := metav1.NewControllerRef(owner, kind.as.GroupVersionKind)
	references := slices.Clone(object.GetOwnerReferences())
	if err := controlledBy(references, wanted); err != nil {
		return fmt.Errorf("%s: %w", of, err)
	}
	references = slices.DeleteFunc(references, func(known metav1.OwnerReference) bool { return refersTo(known, wanted) })
	object.SetOwnerReferences(append(references, *wanted))
	return nil
}

// isUnscoped reports whether an object certainly has no namespace, whatever its field says.
func (c *Client) isUnscoped(object streams.Object) bool {
	kind, err := c.named(object)
	return err == nil && kind.as.ScopeKnown() && !kind.as.Namespaced()
}

// refersTo reports whether two references are to the same object, in whatever version of its kind.
func refersTo(one metav1.OwnerReference, other *metav1.OwnerReference) bool {
	return one.UID == other.UID && isNamed(one, other)
}

// isNamed reports whether two references have the same kind and name.
func isNamed(one metav1.OwnerReference, other *metav1.OwnerReference) bool {
	group := func(version string) string {
		parsed, err := schema.ParseGroupVersion(version)
		if err != nil {
			return version
		}
		return parsed.Group
	}
	return one.Kind == other.Kind && one.Name == other.Name && group(one.APIVersion) == group(other.APIVersion)
}
