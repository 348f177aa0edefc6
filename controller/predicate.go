package controller

import (
	"maps"

	"github.com/bellerophon-io/bellerophon/streams"
)

// Predicate reports whether a change makes requests: see [When]. The predicates of this package are
// false for a change of type [streams.Unchanged] without an old state that differs, and true for
// additions and removals.
type Predicate = func(change streams.Change) bool

// GenerationChanged reports whether the generation changed, which the API server
// increases with each change of the desired state. Changes of the status and of metadata do not count.
// Some built-in kinds have no generation, such as ResourceQuota, Service and ConfigMap: it would hide
// all their changes.
func GenerationChanged(change streams.Change) bool {
	return statesDiffer(change, func(before, after streams.Object) bool { return before.GetGeneration() != after.GetGeneration() })
}

// LabelsChanged reports whether a label changed.
func LabelsChanged(change streams.Change) bool {
	return statesDiffer(change, func(before, after streams.Object) bool { return !maps.Equal(before.GetLabels(), after.GetLabels()) })
}

// AnnotationsChanged reports whether an annotation changed.
func AnnotationsChanged(change streams.Change) bool {
	return statesDiffer(change, func(before, after streams.Object) bool {
		return !maps.Equal(before.GetAnnotations(), after.GetAnnotations())
	})
}

// ResourceVersionChanged reports whether anything changed. Lists and events that
// repeat a known state do not count.
func ResourceVersionChanged(change streams.Change) bool {
	return statesDiffer(change, func(before, after streams.Object) bool {
		return before.GetResourceVersion() != after.GetResourceVersion()
	})
}

// statesDiffer reports whether the two states of a change differ. An object that was added or removed does.
func statesDiffer(change streams.Change, differ func(before, after streams.Object) bool) bool {
	if change.Old == nil || change.New == nil {
		return change.Old != nil || change.New != nil
	}
	return differ(change.Old, change.New)
}

// PredicateOf returns a [Predicate] for changes of objects of type T. before is nil for an object that was
// added, and after is nil for one that was removed. The predicate is false for objects of another type.
func PredicateOf[T streams.Object](predicate func(before, after T) bool) Predicate {
	return func(change streams.Change) bool {
		before, isBefore := change.Old.(T)
		after, isAfter := change.New.(T)
		if change.Old != nil && !isBefore || change.New != nil && !isAfter {
			return false
		}
		return predicate(before, after)
	}
}

// AnyOf returns a [Predicate] that is true if one of the given ones is. Several [When] options on one kind
// must all be true.
func AnyOf(predicates ...Predicate) Predicate {
	return func(change streams.Change) bool {
		for _, predicate := range predicates {
			if predicate(change) {
				return true
			}
		}
		return false
	}
}

// NoneOf returns a [Predicate] that is true if none of the given ones is.
func NoneOf(predicates ...Predicate) Predicate {
	some := AnyOf(predicates...)
	return func(change streams.Change) bool { return !some(change) }
}
