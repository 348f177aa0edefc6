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
	"k8s.io/apimachinery/pkg/types"
)

// errNameTaken means that an object of the name of a child belongs to somebody else.
var errNameTaken = errors.New("belongs to somebody else")

// errLeaving means that a child is still there that is about to be deleted.
var errLeaving = errors.New("is being deleted")

// ensured is what came of bringing one child to what is wanted.
type ensured struct {
	what   string // its kind, for people
	action action
	err    error
}

type action uint8

const (
	unchanged action = iota
	created
	repaired
)

// ensureAll brings the children to what is wanted, in parallel: they do not depend on
// each other, and each is one round trip. It returns what is kept of the StatefulSet as it
// is then, if there is one.
func ensureAll(ctx context.Context, client *controller.Client, hero *v1.BellerophonSimple) (*servers, []ensured) {
	want := desiredOf(hero)
	done := make([]ensured, 3)
	var kept *servers
	steps := []func(context.Context){
		func(ctx context.Context) {
			_, done[0] = ensure[*config](ctx, client, hero, want.config, ways[*corev1.ConfigMap]{"ConfigMap", sumOfConfig, adjustConfig})
		},
		func(ctx context.Context) {
			_, done[1] = ensure[*service](ctx, client, hero, want.service, ways[*corev1.Service]{"Service", sumOfService, adjustService})
		},
		func(ctx context.Context) {
			kept, done[2] = ensure[*servers](ctx, client, hero, want.servers, ways[*appsv1.StatefulSet]{"StatefulSet", sumOfServers, adjustServers})
		},
	}
	group := lifecycle.New(ctx)
	for i, step := range steps {
		group.Go(fmt.Sprint("child ", i), func(ctx context.Context) error { step(ctx); return nil })
	}
	if err := group.Wait(); err != nil {
		done = append(done, ensured{what: "child", err: err})
	}
	return kept, done
}

// keptChild is what the cache keeps of a child.
type keptChild interface {
	streams.Object
	sumOf() sum
}

// ways is how a kind of children is compared and repaired.
type ways[Whole streams.Object] struct {
	what   string // the kind, for people
	sumOf  func(Whole) sum
	adjust func(want, seen Whole)
}

// ensure brings one child to what is wanted, mostly with one write, and with none where
// nothing differs. It returns what is kept of the child as it is then, if there is one that
// belongs to the hero: what was written is in the cache at once.
func ensure[Kept keptChild, Whole streams.Object](ctx context.Context, client *controller.Client, hero *v1.BellerophonSimple,
	want Whole, ways ways[Whole]) (Kept, ensured) {
	done := ensured{what: ways.what}
	seen, found := controller.Get[Kept](client, nameOf(want))
	switch {
	case !found:
		done.action, done.err = create(ctx, client, hero, want, ways)
	case !isOurs(hero, seen):
		done.err = whose(hero, seen, ways.what)
	case seen.sumOf() == ways.sumOf(want):
		return seen, done
	default:
		want.SetResourceVersion(seen.GetResourceVersion())
		done.action, done.err = repair(ctx, client, hero, want, ways)
	}
	if errors.Is(done.err, errNameTaken) || errors.Is(done.err, errLeaving) {
		return *new(Kept), done
	}
	seen, _ = controller.Get[Kept](client, nameOf(want))
	return seen, done
}

// create creates a child that the cache does not have.
func create[Whole streams.Object](ctx context.Context, client *controller.Client, hero *v1.BellerophonSimple, want Whole, ways ways[Whole]) (action, error) {
	_, err := controller.Create(ctx, client, want)
	if err == nil || !apierrors.IsAlreadyExists(err) {
		return created, err
	}
	// It is not among what the labels select: somebody else's, or one that lost them.
	seen, err := controller.Live[Whole](ctx, client, nameOf(want))
	if err != nil {
		return unchanged, err
	}
	if metav1.GetControllerOfNoCopy(seen) == nil {
		return unchanged, taken(ways.what, want)
	}
	return adjusted(ctx, client, hero, want, seen, ways)
}

// repair repairs a child of which an owned field differs. Most differences are mended by
// what is wanted as it is; only for the others the whole of what is there is needed.
func repair[Whole streams.Object](ctx context.Context, client *controller.Client, hero *v1.BellerophonSimple, want Whole, ways ways[Whole]) (action, error) {
	seen, err := controller.Merge(ctx, client, want)
	switch {
	case err == nil && ways.sumOf(seen) == ways.sumOf(want):
		return repaired, nil
	case apierrors.IsInvalid(err): // Such as a port that another has the name of.
		seen, err = controller.Live[Whole](ctx, client, nameOf(want))
	}
	if err != nil {
		return unchanged, err
	}
	return adjusted(ctx, client, hero, want, seen, ways)
}

// adjusted repairs a child as it was seen. What lists hold of other people is in the patch
// too, and must not undo a change of theirs: so it is on condition of what was seen.
func adjusted[Whole streams.Object](ctx context.Context, client *controller.Client, hero *v1.BellerophonSimple, want, seen Whole, ways ways[Whole]) (action, error) {
	if !isOurs(hero, seen) {
		return unchanged, whose(hero, seen, ways.what)
	}
	after := seen.DeepCopyObject().(Whole)
	ways.adjust(want, after)
	if equality.Semantic.DeepEqual(after, seen) {
		return unchanged, nil
	}
	if _, err := controller.Patch(ctx, client, seen, after); err != nil {
		return unchanged, err
	}
	return repaired, nil
}

// isOurs says whether a child of the name may be changed: it is the hero's, or nobody's,
// and stays.
func isOurs(hero *v1.BellerophonSimple, seen streams.Object) bool {
	owner := metav1.GetControllerOfNoCopy(seen)
	return seen.GetDeletionTimestamp() == nil && (owner == nil || owner.UID == hero.UID)
}

// whose says why one that is not ours is there.
func whose(hero *v1.BellerophonSimple, seen streams.Object, what string) error {
	owner := metav1.GetControllerOfNoCopy(seen)
	former := owner != nil && owner.Kind == "BellerophonSimple" && owner.Name == hero.Name
	if former || seen.GetDeletionTimestamp() != nil { // Its deletion will be an event: the garbage collector is at work.
		return fmt.Errorf("%s %s %w", what, nameOf(seen), errLeaving)
	}
	return taken(what, seen)
}

func taken(what string, object streams.Object) error {
	return fmt.Errorf("%s %s %w; rename one of the two", what, nameOf(object), errNameTaken)
}

func nameOf(object metav1.Object) types.NamespacedName {
	return types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()}
}
