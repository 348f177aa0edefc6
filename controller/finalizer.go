package controller

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/bellerophon-io/bellerophon/operators"
	"github.com/bellerophon-io/bellerophon/sources"
	"github.com/bellerophon-io/bellerophon/streams"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
)

// Finalizer adds a finalizer to the controller's objects, so that the controller can clean up outside of
// the cluster before an object goes. name is qualified, such as "acme.io/bucket". T is the type of [For].
//
//   - The finalizer is added to an object before the reconciler is called for it.
//   - When the object is deleted, finalize is called instead of the reconciler. When finalize returns no
//     error and no time, the finalizer is removed, and the object goes with its last finalizer.
//   - An error, or a time after which to look again, means that the clean-up is not done.
//
// The process may stop between any two of these steps. So finalize may be called again after it was done,
// and must succeed then. An object that was deleted without the finalizer, such as one from before the
// finalizer was introduced, gets no call. The controller needs permission to patch the kind.
//
// Finalizer may be given several times. The finalizers run in that order, each after the one before it is
// removed.
func Finalizer[T streams.Object](name string, finalize func(ctx context.Context, object T) (requeueAfter time.Duration, err error)) Option {
	return FinalizerIf(name, func(T) bool { return true }, finalize)
}

// FinalizerIf adds a finalizer, as [Finalizer] does, to the objects for which needed returns true. An object that
// does not need the finalizer can go while the controller is not there. needed must depend on the object alone.
// When its result becomes false, the finalizer is removed, also from an object that is being deleted: finalize is
// not called then.
func FinalizerIf[T streams.Object](name string, needed func(object T) bool, finalize func(ctx context.Context, object T) (requeueAfter time.Duration, err error)) Option {
	return option(func(d *definition) {
		d.finalizers = append(d.finalizers, finalizer{
			name: name, of: reflect.TypeFor[T](),
			needed: func(object streams.Object) bool { return needed(object.(T)) },
			run: func(ctx context.Context, object streams.Object) (time.Duration, error) {
				return finalize(ctx, object.(T))
			},
			patch: func(ctx context.Context, c *Client, before streams.Object, names []string) (streams.Object, error) {
				after := before.DeepCopyObject().(T)
				after.SetFinalizers(names)
				return Patch(ctx, c, after, MergeFrom(before))
			},
			get: func(ctx context.Context, c *Client, name types.NamespacedName, kind schema.GroupVersionKind) (streams.Object, error) {
				return Get[T](ctx, c, name, OfKind(kind))
			},
		})
	})
}

// isLeaving reports whether the object of a change is being deleted.
func isLeaving(change streams.Change) bool {
	return change.New != nil && change.New.GetDeletionTimestamp() != nil
}

// finalizer is a finalizer of a controller's objects.
type finalizer struct {
	name   string
	of     reflect.Type
	needed func(object streams.Object) bool
	run    func(ctx context.Context, object streams.Object) (time.Duration, error)
	patch  func(ctx context.Context, c *Client, before streams.Object, names []string) (streams.Object, error)
	get    func(ctx context.Context, c *Client, name types.NamespacedName, kind schema.GroupVersionKind) (streams.Object, error)
}

// validate returns an error for a finalizer that does not fit the kind that the controller reconciles.
func (f finalizer) validate(kind sources.Kind) error {
	wrong := validation.IsQualifiedName(f.name)
	switch {
	case len(wrong) > 0:
		return fmt.Errorf("Finalizer has the name %q, which is not a qualified name: %s", f.name, strings.Join(wrong, "; "))
	case !strings.Contains(f.name, "/"):
		return fmt.Errorf("Finalizer has the name %q; qualify it with a domain, such as acme.io/%s", f.name, f.name)
	case f.of != kind.Type():
		return fmt.Errorf("Finalizer %s is for %v, and For names %v; give both the same type", f.name, f.of, kind.Type())
	case kind.Form() == sources.Projected:
		return fmt.Errorf("Finalizer %s: %v is a projection, which does not have the finalizers of the object; keep the kind whole or as metadata", f.name, f.of)
	}
	return nil
}

// finalizing returns a reconciler that adds finalizers, and runs them when an object is being deleted.
func finalizing(c *Client, kind schema.GroupVersionKind, finalizers []finalizer, reconcile operators.Reconciler) operators.Reconciler {
	get := finalizers[0].get
	return func(ctx context.Context, request operators.Request) (time.Duration, error) {
		object, err := get(ctx, c, request.NamespacedName, kind)
		switch {
		case apierrors.IsNotFound(err):
			return reconcile(ctx, request)
		case err != nil:
			return 0, err
		case object.GetDeletionTimestamp() != nil:
			return finalizeAll(ctx, c, finalizers, object)
		}
		wanted := slices.Clone(object.GetFinalizers())
		for _, finalizer := range finalizers {
			switch has := slices.Contains(wanted, finalizer.name); {
			case finalizer.needed(object) == has:
			case has:
				wanted = without(wanted, finalizer.name)
			default:
				wanted = append(wanted, finalizer.name)
			}
		}
		if !slices.Equal(wanted, object.GetFinalizers()) {
			// The patch is conditional on the version: it must not undo another client's change of the list.
			if _, err := finalizers[0].patch(ctx, c, object, wanted); err != nil {
				return 0, IgnoreNotFound(err) // A deleted object is an event.
			}
		}
		return reconcile(ctx, request)
	}
}

// finalizeAll runs the finalizers that an object has, and removes each when it is done.
func finalizeAll(ctx context.Context, c *Client, finalizers []finalizer, object streams.Object) (time.Duration, error) {
	for _, finalizer := range finalizers {
		if !slices.Contains(object.GetFinalizers(), finalizer.name) {
			continue
		}
		if finalizer.needed(object) {
			if after, err := finalizer.run(ctx, object); err != nil {
				return 0, fmt.Errorf("finalizer %s: %w", finalizer.name, err)
			} else if after > 0 {
				return after, nil
			}
		}
		var err error
		if object, err = finalizer.patch(ctx, c, object, without(object.GetFinalizers(), finalizer.name)); err != nil {
			return 0, IgnoreNotFound(err)
		}
	}
	return 0, nil
}

// without returns a list of names that lacks one.
func without(names []string, name string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(one string) bool { return one == name })
}
