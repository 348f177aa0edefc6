package simple

import (
	"context"
	"errors"
	"fmt"

	v1 "github.com/bellerophon-io/bellerophon/bellerophon/api/simple/v1"
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

// errNameTaken means that an object of the name of a child belongs to somebody else.
var errNameTaken = errors.New("belongs to somebody else")

// errUnlisted means that a child is there already, before children were listed: an operator that
// ended before its first status has made it, or it is somebody else's. The list will tell.
var errUnlisted = errors.New("is there, and was not listed yet")

// errReplaced means that a child is another one by now than the cache has, or nobody's. The
// event that says so decides.
var errReplaced = errors.New("was replaced or released meanwhile")

// errUndone means that a repair was carried out, and is not there.
var errUndone = errors.New("does not keep what is written, as if an admission webhook changed it back")

// errLeaving means that a child is still there that is about to be deleted.
var errLeaving = errors.New("is being deleted")

// ensured is what came of bringing one child to what is wanted.
type ensured struct {
	what   string // its kind, for people
	action action
	err    error
	write  func(context.Context) (action, error) // what it takes; nil is nothing
}

type action uint8

const (
	unchanged action = iota
	created
	repaired
)

// ensureAll brings the children to what is wanted, mostly with one write each, and with none
// where nothing differs. It returns what is kept of the StatefulSet as it is then, if there is
// one that belongs to the hero: what was written is in the cache at once. Where children are
// unlisted, the first of them is created alone: it tells whether the others are there as well.
func ensureAll(ctx context.Context, client *controller.Client, hero *v1.BellerophonSimple, unlisted bool) (*servers, []ensured) {
	want := desiredOf(hero)
	done := []ensured{
		compare[*config](client, hero, want.config, ways[*corev1.ConfigMap]{"ConfigMap", sumOfConfig, adjustConfig, unlisted}),
		compare[*service](client, hero, want.service, ways[*corev1.Service]{"Service", sumOfService, adjustService, unlisted}),
		compare[*servers](client, hero, want.servers, ways[*appsv1.StatefulSet]{"StatefulSet", sumOfServers, adjustServers, unlisted}),
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
	kept, _ := controller.Get[*servers](client, nameOf(hero))
	return kept, done
}

// writeAll writes what has to be written, in parallel: the children do not depend on each
// other, and each is one round trip. The error is a panic's.
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
	// One in this goroutine: a new one has to make its stack as large as a request takes.
	err := lifecycle.Guard(func() error { return writes[last](ctx) })
	return errors.Join(err, group.Wait())
}

// keptChild is what the cache keeps of a child.
type keptChild interface {
	streams.Object
	sumOf() sum
	isLabelled() bool
}

// ways is how a kind of children is compared and repaired.
type ways[Whole streams.Object] struct {
	what     string // the kind, for people
	sumOf    func(Whole) sum
	adjust   func(want, seen Whole)
	unlisted bool // what the cache does not have may be there
}

// compare says what it takes to bring one child to what is wanted.
func compare[Kept keptChild, Whole streams.Object](client *controller.Client, hero *v1.BellerophonSimple, want Whole, ways ways[Whole]) ensured {
	child := ensured{what: ways.what}
	seen, found := controller.Get[Kept](client, nameOf(want))
	switch {
	case !found:
		child.write = func(ctx context.Context) (action, error) { return create(ctx, client, hero, want, ways) }
	case !isOurs(hero, seen, seen.isLabelled()):
		child.err = whose(hero, seen, ways.what)
	case seen.sumOf() != ways.sumOf(want):
		if metav1.IsControlledBy(seen, hero) {
			want.SetUID(seen.GetUID()) // It may change meanwhile, as the status of a StatefulSet does all the time, but not be another.
		} else {
			want.SetResourceVersion(seen.GetResourceVersion()) // Nor may somebody else take it.
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
	// It is not among what the labels select: somebody else's, or one that lost them. Or the watch
	// is late.
	seen, err := controller.Live[Whole](ctx, client, nameOf(want))
	if err != nil {
		return unchanged, err
	}
	return adjusted(ctx, client, hero, want, seen, ways)
}

// repair repairs a child of which an owned field differs. Most differences are mended by
// what is wanted as it is; only for the others the whole of what is there is needed.
func repair[Whole streams.Object](ctx context.Context, client *controller.Client, hero *v1.BellerophonSimple, want Whole, ways ways[Whole]) (action, error) {
	sent, known := want, want.GetUID()
	if known != "" { // It is the hero's. Who takes it from the hero meanwhile is to keep it.
		sent = want.DeepCopyObject().(Whole)
		sent.SetOwnerReferences(nil)
	}
	seen, err := controller.Merge(ctx, client, sent)
	merged := err == nil
	if apierrors.IsInvalid(err) { // Such as a port that another has the name of, or another uid.
		seen, err = controller.Live[Whole](ctx, client, nameOf(want))
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

// adjusted repairs a child as it was seen. What lists hold of other people is in the patch
// too, and must not undo a change of theirs: so it is on condition of what was seen.
func adjusted[Whole streams.Object](ctx context.Context, client *controller.Client, hero *v1.BellerophonSimple, want, seen Whole, ways ways[Whole]) (action, error) {
	if !isOurs(hero, seen, isLabelled(seen)) {
		return unchanged, whose(hero, seen, ways.what)
	}
	after := seen.DeepCopyObject().(Whole)
	ways.adjust(want, after)
	if equality.Semantic.DeepEqual(after, seen) {
		return unchanged, nil
	}
	written, err := controller.Patch(ctx, client, seen, after)
	switch {
	case err != nil:
		return unchanged, err
	case ways.sumOf(written) != ways.sumOf(want):
		return unchanged, fmt.Errorf("%s %s %w", ways.what, nameOf(want), errUndone)
	}
	return repaired, nil
}

// isOurs reports whether a child of the name may be changed: it stays, and the hero controls it, or
// nobody does and its labels say that it is the hero's. Then it has lost its owner, as when a backup
// brings it back. Labels that all heroes share say no such thing.
func isOurs(hero *v1.BellerophonSimple, seen streams.Object, labelled bool) bool {
	if seen.GetDeletionTimestamp() != nil {
		return false
	}
	if owner := metav1.GetControllerOfNoCopy(seen); owner != nil {
		return owner.UID == hero.UID
	}
	return labelled
}

// isLabelled reports whether an object has the labels of a child of its name. A child has the name
// of its hero.
func isLabelled(object metav1.Object) bool {
	has := object.GetLabels()
	return has[labelName] == appName && has[labelManagedBy] == managedBy && has[labelInstance] == object.GetName()
}

// whose says why one that is not ours is there.
func whose(hero *v1.BellerophonSimple, seen streams.Object, what string) error {
	owner := metav1.GetControllerOfNoCopy(seen)
	former := owner != nil && owner.Kind == "BellerophonSimple" && owner.Name == hero.Name
	if former || seen.GetDeletionTimestamp() != nil { // Its deletion will be an event: the garbage collector is at work.
		return fmt.Errorf("%s %s %w", what, nameOf(seen), errLeaving)
	}
	if owner == nil {
		return fmt.Errorf("%s %s %w: it has no controller, and not the labels of a child of this object; rename one of the two, or have it adopted with the labels %s",
			what, nameOf(seen), errNameTaken, labels.FormatLabels(labelsOf(hero)))
	}
	return fmt.Errorf("%s %s %w: %s %s controls it; rename one of the two", what, nameOf(seen), errNameTaken, owner.Kind, owner.Name)
}

func nameOf(object metav1.Object) types.NamespacedName {
	return types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()}
}
