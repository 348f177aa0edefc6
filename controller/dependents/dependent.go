package dependents

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/bellerophon-io/bellerophon/cache"
	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/streams"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// These labels mark the children of a set.
const (
	SetLabel  = "bellerophon.io/dependents" // the name of the set
	NameLabel = "bellerophon.io/dependent"  // the name of the dependent
)

// ErrNotOwned is wrapped in the error for an object that has the name of a child, but was not made by the
// set. If another object controls it, the error wraps [controller.ErrOtherController] instead.
var ErrNotOwned = errors.New("the object exists, and the set did not make it; delete or rename it, or take it over with Adopt")

// Dependent is one member of a [Set]: a *Children of any type.
type Dependent[O streams.Object] interface {
	// Name returns the name of the dependent within its set.
	Name() string

	node() *node[O]
}

// Children are the children of one type that a dependent stands for. [One], [Many] and [Former] create
// them. The methods configure them, and must be called before [NewSet].
type Children[O, T streams.Object] struct {
	of      *node[O]
	desired func(ctx context.Context, owner O, view *View) ([]T, error)
	ready   func(ctx context.Context, object T) (Readiness, error)
}

// node is what a set knows about a dependent of any type.
type node[O streams.Object] struct {
	name  string
	kind  schema.GroupVersionKind // only for a type that stands for several kinds
	typed reflect.Type
	after []Dependent[O]
	when  []func(owner O, view *View) bool
	force bool
	adopt bool
	watch []controller.InputOption
	wrong error

	deadline   time.Duration // 0 for none
	conditions func(owner O) []metav1.Condition

	empty   func() streams.Object
	desired func(ctx context.Context, owner O, view *View) ([]streams.Object, error)
	owned   func(ctx context.Context, view *View) ([]streams.Object, error)
	get     func(ctx context.Context, c *controller.Client, name types.NamespacedName) (streams.Object, error)
	getLive func(ctx context.Context, c *controller.Client, name types.NamespacedName) (streams.Object, error)
	apply   func(ctx context.Context, c *controller.Client, object streams.Object, options ...controller.WriteOption) (streams.Object, error)
	remove  func(ctx context.Context, c *controller.Client, object streams.Object) error
	check   func(ctx context.Context, object streams.Object) (Readiness, error)
}

// One declares a child. name identifies it within its set, and must not change between versions of the
// program. desired returns the child as it should be, with a name; the namespace is the owner's if it is
// empty. The fields that the child sets are applied. A nil child means that there should be none; the
// dependent then counts as ready.
//
// desired may be called often and must not write. It may return an object of view: it gets a copy. If it
// returns an error, the child stays as it is.
func One[O, T streams.Object](name string, desired func(ctx context.Context, owner O, view *View) (T, error)) *Children[O, T] {
	if desired == nil {
		return wrongChildren[O, T](name)
	}
	return Many(name, func(ctx context.Context, owner O, view *View) ([]T, error) {
		one, err := desired(ctx, owner, view)
		if err != nil || isNil(one) {
			return nil, err
		}
		return []T{one}, nil
	})
}

// Many declares any number of children of one type: see [One]. The dependent is ready when all children
// that desired returns are ready.
func Many[O, T streams.Object](name string, desired func(ctx context.Context, owner O, view *View) ([]T, error)) *Children[O, T] {
	if desired == nil {
		return wrongChildren[O, T](name)
	}
	made := &Children[O, T]{
		of: &node[O]{name: name, typed: reflect.TypeFor[T]()}, desired: desired,
		ready: func(_ context.Context, object T) (Readiness, error) { return IsReady(object), nil },
	}
	made.erase()
	return made
}

// Former declares the children of an earlier version of the program, so that they are deleted. A dependent
// that left the set needs it only if no other dependent of the set has its kind.
func Former[O, T streams.Object](name string) *Children[O, T] {
	none := func(context.Context, O, *View) ([]T, error) { return nil, nil }
	return Many(name, none).When(func(O, *View) bool { return false })
}

func wrongChildren[O, T streams.Object](name string) *Children[O, T] {
	made := Former[O, T](name)
	made.of.wrong = errors.New("it has no function for its desired state; give one")
	return made
}

// Name returns the name of the dependent within its set.
func (d *Children[O, T]) Name() string { return d.of.name }

func (d *Children[O, T]) node() *node[O] { return d.of }

// After delays the children until the given dependents are ready. If one of these is no longer desired,
// the children are deleted before it is. Children that exist stay as they are while they wait.
func (d *Children[O, T]) After(others ...Dependent[O]) *Children[O, T] {
	d.of.after = append(d.of.after, others...)
	return d
}

// When makes the children depend on a condition. While it is false, they are deleted. If When is given
// several times, all conditions must hold. A call of [Set.Reconcile] calls condition once, before it
// writes.
func (d *Children[O, T]) When(condition func(owner O, view *View) bool) *Children[O, T] {
	d.of.when = append(d.of.when, condition)
	return d
}

// Ready sets a function that reports whether a child is ready, instead of [IsReady].
func (d *Children[O, T]) Ready(check func(ctx context.Context, object T) (Readiness, error)) *Children[O, T] {
	if d.ready = check; check == nil {
		d.of.wrong = errors.New("Ready has no function; give one or leave Ready out")
	}
	return d
}

// Force takes over fields that another field manager owns with other values: see [controller.Force].
// Without it, such a field fails the dependent.
func (d *Children[O, T]) Force() *Children[O, T] {
	d.of.force = true
	return d
}

// Adopt takes over an existing object that no other object controls, such as a child from before the owner
// had a set. The object is deleted with its owner from then on.
func (d *Children[O, T]) Adopt() *Children[O, T] {
	d.of.adopt = true
	return d
}

// OfKind names the kind, for a type such as *unstructured.Unstructured that stands for several kinds.
func (d *Children[O, T]) OfKind(kind schema.GroupVersionKind) *Children[O, T] {
	d.of.kind = kind
	return d
}

// Watch gives options to the watch of the kind: see [Set.Owns]. The cache must keep the kind whole.
func (d *Children[O, T]) Watch(options ...controller.InputOption) *Children[O, T] {
	d.of.watch = append(d.of.watch, options...)
	return d
}

// Get returns the child as it is now, and whether there is one. It must not be changed. The desired state
// of another dependent should call it only if it comes After this one.
func (d *Children[O, T]) Get(view *View) (child T, exists bool) {
	all := d.List(view)
	if len(all) == 0 {
		return child, false
	}
	return all[0], true
}

// List returns the children as they are now, by name. Children that are being deleted are left out. See
// Get.
func (d *Children[O, T]) List(view *View) []T {
	var children []T
	found, err := d.list(view.ctx, view)
	if err != nil {
		view.fail(err)
	}
	for _, child := range found {
		if child.GetDeletionTimestamp() == nil && child.GetLabels()[NameLabel] == d.of.name {
			children = append(children, child)
		}
	}
	return children
}

// list returns the objects of the type that belong to the set and its owner, whatever their dependent.
func (d *Children[O, T]) list(ctx context.Context, view *View) ([]T, error) {
	options := []controller.ReadOption{controller.InIndex(cache.OwnerIndex, string(view.owner.GetUID()))}
	if !d.of.kind.Empty() {
		options = append(options, controller.OfKind(d.of.kind))
	}
	found, err := controller.List[T](ctx, view.client, options...)
	if err != nil {
		return nil, err
	}
	var owned []T
	for _, object := range found {
		if metav1.IsControlledBy(object, view.owner) && object.GetLabels()[SetLabel] == view.set {
			owned = append(owned, object)
		}
	}
	return owned, nil
}

// erase sets the functions of the node, which take objects of any type.
func (d *Children[O, T]) erase() {
	n := d.of
	n.empty = func() streams.Object {
		if n.typed.Kind() != reflect.Pointer {
			return nil
		}
		return reflect.New(n.typed.Elem()).Interface().(T)
	}
	n.desired = func(ctx context.Context, owner O, view *View) ([]streams.Object, error) {
		made, err := d.desired(ctx, owner, view)
		objects := make([]streams.Object, 0, len(made))
		for _, object := range made {
			if isNil(object) {
				return nil, errors.New("a desired child is nil; leave it out")
			}
			objects = append(objects, object.DeepCopyObject().(T))
		}
		return objects, errors.Join(err, view.failure())
	}
	n.owned = func(ctx context.Context, view *View) ([]streams.Object, error) {
		found, err := d.list(ctx, view)
		objects := make([]streams.Object, len(found))
		for i, object := range found {
			objects[i] = object
		}
		return objects, err
	}
	n.get = reader(n, controller.Get[T])
	n.getLive = reader(n, controller.GetLive[T])
	n.apply = func(ctx context.Context, c *controller.Client, object streams.Object, options ...controller.WriteOption) (streams.Object, error) {
		if n.force {
			options = append(options, controller.Force())
		}
		return controller.Apply[T](ctx, c, controller.ApplyConfigurationOf(object), options...)
	}
	n.remove = func(ctx context.Context, c *controller.Client, object streams.Object) error {
		err := controller.Delete(ctx, c, object.DeepCopyObject().(T), controller.IfUnchanged())
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	}
	n.check = func(ctx context.Context, object streams.Object) (Readiness, error) {
		typed, is := object.(T)
		if !is {
			return Readiness{}, fmt.Errorf("the object is a %T, and not a %v", object, n.typed)
		}
		return d.ready(ctx, typed)
	}
}

// reader returns a function that reads an object, or nil if it does not exist.
func reader[O, T streams.Object](n *node[O], read func(context.Context, *controller.Client, types.NamespacedName, ...controller.ReadOption) (T, error)) func(context.Context, *controller.Client, types.NamespacedName) (streams.Object, error) {
	return func(ctx context.Context, c *controller.Client, name types.NamespacedName) (streams.Object, error) {
		var options []controller.ReadOption
		if !n.kind.Empty() {
			options = append(options, controller.OfKind(n.kind))
		}
		found, err := read(ctx, c, name, options...)
		if err != nil {
			return nil, controller.IgnoreNotFound(err)
		}
		return found, nil
	}
}

func isNil(object streams.Object) bool {
	of := reflect.ValueOf(object)
	return !of.IsValid() || of.Kind() == reflect.Pointer && of.IsNil()
}
