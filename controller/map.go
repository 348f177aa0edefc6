package controller

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	"github.com/bellerophon-io/bellerophon/streams"
	"k8s.io/apimachinery/pkg/types"
)

// Map returns a map function for [Watches] whose object has its Go type. ctx ends with the manager. A map
// function must be fast, since events wait for it: read from the cache, and not from the API server. It
// is called with the old and with the new state of an object, one at a time: see [MapChange] for both. It
// returns nil for an object of another type.
func Map[T streams.Object](c *Client, mapFunc func(ctx context.Context, c *Client, object T) []types.NamespacedName) func(streams.Object) []types.NamespacedName {
	return func(object streams.Object) []types.NamespacedName {
		typed, ok := object.(T)
		if !ok {
			return nil
		}
		return mapFunc(c.manager.context(), c, typed)
	}
}

// ChangeOf is a change of an object whose states have their Go type. At least one state is set. A list that
// repeats a known state is a change whose states are equal.
type ChangeOf[T streams.Object] struct {
	Old    T               // nil if the object was added
	New    T               // nil if the object was removed
	Causes []streams.Cause // the events behind the change, oldest first
}

// MapChange sets a function that maps changes of the kind to the names of the reconciled objects that
// they concern. It replaces the rule of [For], [Owns] or [Watches]. It gets both states of the object, and
// can so compare them:
//
//	controller.Watches(&corev1.Secret{}, nil, controller.MapChange(concerned))
//
// T is the Go type in which the cache keeps the kind, or streams.Object. ctx, the client and the need to be
// fast are as for [Map]. mapFunc must be safe for use by many goroutines. It is not called for a change that
// [When] leaves out. If it panics, it is called again later, with both states of the change.
func MapChange[T streams.Object](mapFunc func(ctx context.Context, c *Client, change ChangeOf[T]) []types.NamespacedName) InputOption {
	return inputOption(func(i *input) {
		if _, fits := i.object.(T); !fits {
			i.wrong = fmt.Errorf("MapChange has a function for %v, but the kind is kept as %T; give a function for that type", reflect.TypeFor[T](), i.object)
		}
		if mapFunc == nil {
			i.wrong = errors.New("MapChange has no function; give one")
		}
		i.changes = func(c *Client, change streams.Change) []types.NamespacedName {
			before, isBefore := change.Old.(T)
			after, isAfter := change.New.(T)
			if change.Old != nil && !isBefore || change.New != nil && !isAfter || !isBefore && !isAfter {
				return nil
			}
			return mapFunc(c.manager.context(), c, ChangeOf[T]{Old: before, New: after, Causes: change.Causes})
		}
	})
}
