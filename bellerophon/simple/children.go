package simple

import (
	"context"
	"errors"
	"fmt"

	v1 "github.com/bellerophon-io/bellerophon/bellerophon/api/simple/v1"
	"github.com/bellerophon-io/bellerophon/bellerophon/owned"
	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/streams"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
)

// errNameTaken means that an object with the name of a child exists, and the hero does not own it.
var errNameTaken = errors.New("is not owned by this object")

// errUnlisted means that a child already exists, although the cache has not listed children yet.
// Either an earlier operator created it and ended before its first status, or another client did.
// The list decides.
var errUnlisted = errors.New("already exists, but has not been listed yet")

// errReplaced means that the child in the cache was replaced by another object of its name, or that
// the hero no longer controls it. The event of that change decides.
var errReplaced = errors.New("was replaced or released meanwhile")

// errUndone means that the API server accepted a repair, but did not keep it.
var errUndone = errors.New("does not keep the written fields; check whether an admission webhook reverts them")

// errLeaving means that a child still exists, but is about to be deleted.
var errLeaving = errors.New("is being deleted")

// ensured is the result of bringing one child to the desired state.
type ensured struct {
	what   string // the kind of the child, for people
	action action
	err    error
	write  func(context.Context) (action, error) // the write that is needed; nil for none
}

type action uint8

const (
	unchanged action = iota
	created
	repaired
)

// ensureAll brings the children to the desired state, mostly with one write each, and without a
// write if nothing differs. It returns the projected StatefulSet after the writes, which the cache
// shows at once, or nil if there is none that the hero owns.
//
// While children are unlisted, the first child is created alone. If it already exists, the others
// are left to a reconcile after the list.
func ensureAll(ctx context.Context, client *controller.Client, hero *v1.BellerophonSimple, unlisted bool) (*owned.StatefulSet, []ensured) {
	want := desiredOf(hero)
	done := []ensured{
		compare[*owned.ConfigMap](ctx, client, hero, want.config, ways[*corev1.ConfigMap]{"ConfigMap", sumOfConfig, adjustConfig, unlisted}),
		compare[*owned.Service](ctx, client, hero, want.service, ways[*corev1.Service]{"Service", sumOfService, adjustService, unlisted}),
		compare[*owned.StatefulSet](ctx, client, hero, want.servers, ways[*appsv1.StatefulSet]{"StatefulSet", sumOfServers, adjustServers, unlisted}),
	}
	if first := &done[0]; unlisted && first.write != nil {
		first.action, first.err = first.write(ctx)
		if first.write = nil; errors.Is(first.err, errUnlisted) {
			return nil, done
		}
	}
	if err := writeAll(ctx, done); err != nil {
		done = append(done, ensured{what: "child", err: err})
	}
	if err := done[2].err; errors.Is(err, errNameTaken) || errors.Is(err, errLeaving) {
		return nil, done
	}
	kept, err := controller.Get[*owned.StatefulSet](ctx, client, nameOf(hero))
	if err != nil {
		return nil, done // It does not exist, as its creation has failed.
	}
	return kept, done
}

// writeAll does the writes in parallel, because the children do not depend on each other and each
// write is one round trip. It returns an error only if a write panics.
func writeAll(ctx context.Context, children []ensured) error {
	var writes []func(context.Context) error
	for i := range children {
		if child := &children[i]; child.write != nil {
			writes = append(writes, func(ctx context.Context) error {
				child.action, child.err = child.write(ctx)
				return nil
			})
		}
	}
	if len(writes) == 0 {
		return nil
	}
	last := len(writes) - 1
	group := lifecycle.New(ctx)
	for _, write := range writes[:last] {
		group.Go("a write", write)
	}
	// The last write runs in this goroutine. A new goroutine has to grow its stack for a request.
	err := lifecycle.Guard(func() error { return writes[last](ctx) })
	return errors.Join(err, group.Wait())
}

// keptChild is the projection of a child that the cache keeps.
type keptChild interface {
	streams.Object
	Sum() owned.Sum
	IsLabelled(app string) bool
}

// ways holds the functions that compare and repair a kind of children.
type ways[Whole streams.Object] struct {
	what     string // the kind, for people
	sumOf    func(Whole) owned.Sum
	adjust   func(want, seen Whole)
	unlisted bool // a child that is not in the cache may exist
}

// compare determines which write brings one child to the desired state.
func compare[Kept keptChild, Whole streams.Object](ctx context.Context, client *controller.Client, hero *v1.BellerophonSimple, want Whole, ways ways[Whole]) ensured {
	child := ensured{what: ways.what}
	seen, err := controller.Get[Kept](ctx, client, nameOf(want))
	switch {
	case apierrors.IsNotFound(err):
		child.write = func(ctx context.Context) (action, error) { return create(ctx, client, hero, want, ways) }
	case err != nil:
		child.err = err
	case !isOurs(hero, seen, seen.IsLabelled(appName)):
		child.err = notOurs(hero, seen, ways.what)
	case seen.Sum() != ways.sumOf(want):
		if metav1.IsControlledBy(seen, hero) {
			// The child may change meanwhile, as the status of a StatefulSet often does, but it must
			// not be replaced.
			want.SetUID(seen.GetUID())
		} else {
			want.SetResourceVersion(seen.GetResourceVersion()) // Another client must not adopt it meanwhile.
		}
		child.write = func(ctx context.Context) (action, error) { return repair(ctx, client, hero, want, ways) }
	}
	return child
}

// create creates a child that the cache does not have.
func create[Whole streams.Object](ctx context.Context, client *controller.Client, hero *v1.BellerophonSimple, want Whole, ways ways[Whole]) (action, error) {
	_, err := controller.Create(ctx, client, want)
	if err == nil || !apierrors.IsAlreadyExists(err) {
		return created, err
	}
	if ways.unlisted {
		return unchanged, fmt.Errorf("%s %s %w", ways.what, nameOf(want), errUnlisted)
	}
	// The existing object lacks the labels of the selector, because another client created it or the
	// child lost them. Or the watch is late.
	seen, err := controller.GetLive[Whole](ctx, client, nameOf(want))
	if err != nil {
		return unchanged, err
	}
	return adjusted(ctx, client, hero, want, seen, ways)
}

// repair repairs a child with an owned field that differs. A merge patch of the desired child repairs
// most differences. Only the others need the whole object as it is on the server.
func repair[Whole streams.Object](ctx context.Context, client *controller.Client, hero *v1.BellerophonSimple, want Whole, ways ways[Whole]) (action, error) {
	sent, known := want, want.GetUID()
	if known != "" { // The hero owns the child. A client that takes it over meanwhile must keep it.
		sent = want.DeepCopyObject().(Whole)
		sent.SetOwnerReferences(nil)
	}
	seen, err := controller.Patch(ctx, client, sent, controller.StrategicMerge())
	merged := err == nil
	if apierrors.IsInvalid(err) { // Such as two ports of one name, or another uid.
		seen, err = controller.GetLive[Whole](ctx, client, nameOf(want))
	}
	switch {
	case err != nil:
		return unchanged, err
	case known != "" && (seen.GetUID() != known || !metav1.IsControlledBy(seen, hero)):
		return unchanged, fmt.Errorf("%s %s %w", ways.what, nameOf(want), errReplaced)
	case merged && ways.sumOf(seen) == ways.sumOf(want):
		return repaired, nil
	}
	return adjusted(ctx, client, hero, want, seen, ways)
}

// adjusted repairs a child as it was last seen. The patch repeats the list items of other clients,
// and must not undo their changes. It is therefore conditional on the resource version of seen.
func adjusted[Whole streams.Object](ctx context.Context, client *controller.Client, hero *v1.BellerophonSimple, want, seen Whole, ways ways[Whole]) (action, error) {
	if !isOurs(hero, seen, owned.IsLabelled(seen, appName)) {
		return unchanged, notOurs(hero, seen, ways.what)
	}
	after := seen.DeepCopyObject().(Whole)
	ways.adjust(want, after)
	if equality.Semantic.DeepEqual(after, seen) {
		return unchanged, nil
	}
	written, err := controller.Patch(ctx, client, after, controller.MergeFrom(seen))
	switch {
	case err != nil:
		return unchanged, err
	case ways.sumOf(written) != ways.sumOf(want):
		return unchanged, fmt.Errorf("%s %s %w", ways.what, nameOf(want), errUndone)
	}
	return repaired, nil
}

// isOurs reports whether the operator may change an object with the name of a child. It may if the
// object is not being deleted and the hero controls it. An object without a controller must have
// the labels of the hero's child: it has lost its owner, such as after a restore from a backup. The
// labels that the children of all heroes share are not enough.
func isOurs(hero *v1.BellerophonSimple, seen streams.Object, labelled bool) bool {
	if seen.GetDeletionTimestamp() != nil {
		return false
	}
	if owner := metav1.GetControllerOfNoCopy(seen); owner != nil {
		return owner.UID == hero.UID
	}
	return labelled
}

// notOurs returns the error for an object with the name of a child that the operator must not
// change.
func notOurs(hero *v1.BellerophonSimple, seen streams.Object, what string) error {
	owner := metav1.GetControllerOfNoCopy(seen)
	former := owner != nil && owner.Kind == "BellerophonSimple" && owner.Name == hero.Name
	if former || seen.GetDeletionTimestamp() != nil { // The garbage collector deletes it, and the event requeues the hero.
		return fmt.Errorf("%s %s %w", what, nameOf(seen), errLeaving)
	}
	if owner == nil {
		return fmt.Errorf("%s %s %w: it has no controller and lacks the labels of a child; rename one of the two, or set the labels %s to have it adopted",
			what, nameOf(seen), errNameTaken, labels.FormatLabels(labelsOf(hero)))
	}
	return fmt.Errorf("%s %s %w: %s %s controls it; rename one of the two", what, nameOf(seen), errNameTaken, owner.Kind, owner.Name)
}

func nameOf(object metav1.Object) types.NamespacedName {
	return types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()}
}
