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
// each other, and each is one round trip. It returns the StatefulSet as it is then, if
// there is one.
func ensureAll(ctx context.Context, client *controller.Client, hero *v1.BellerophonSimple) (*appsv1.StatefulSet, []ensured) {
	want := desiredOf(hero)
	done := make([]ensured, 3)
	var servers *appsv1.StatefulSet
	steps := []func(context.Context){
		func(ctx context.Context) {
			_, done[0] = ensure(ctx, client, hero, want.config, "ConfigMap", adjustConfig)
		},
		func(ctx context.Context) {
			_, done[1] = ensure(ctx, client, hero, want.service, "Service", adjustService)
		},
		func(ctx context.Context) {
			servers, done[2] = ensure(ctx, client, hero, want.servers, "StatefulSet", adjustServers)
		},
	}
	group := lifecycle.New(ctx)
	for i, step := range steps {
		group.Go(fmt.Sprint("child ", i), func(ctx context.Context) error { step(ctx); return nil })
	}
	if err := group.Wait(); err != nil {
		done = append(done, ensured{what: "child", err: err})
	}
	return servers, done
}

// ensure brings one child to what is wanted, with one write at most, and with none where
// nothing differs.
func ensure[T streams.Object](ctx context.Context, client *controller.Client, hero *v1.BellerophonSimple, want T, what string,
	adjust func(want, seen T)) (T, ensured) {
	seen, found := controller.Get[T](client, nameOf(want))
	if !found {
		made, err := controller.Create(ctx, client, want)
		if err == nil || !apierrors.IsAlreadyExists(err) {
			return made, ensured{what, created, err}
		}
		// It is not among what the labels select: somebody else's, or one that lost them.
		if seen, err = controller.Live[T](ctx, client, nameOf(want)); err != nil {
			return seen, ensured{what, unchanged, err}
		}
		if metav1.GetControllerOfNoCopy(seen) == nil {
			return *new(T), ensured{what, unchanged, taken(what, want)}
		}
	}
	switch owner := metav1.GetControllerOfNoCopy(seen); {
	case owner != nil && owner.UID != hero.UID && owner.Kind == "BellerophonSimple" && owner.Name == hero.Name,
		seen.GetDeletionTimestamp() != nil:
		// Its deletion will be an event: the garbage collector is at work.
		return *new(T), ensured{what, unchanged, fmt.Errorf("%s %s %w", what, nameOf(want), errLeaving)}
	case owner != nil && owner.UID != hero.UID:
		return *new(T), ensured{what, unchanged, taken(what, want)}
	}
	after := seen.DeepCopyObject().(T)
	adjust(want, after)
	if equality.Semantic.DeepEqual(after, seen) {
		return seen, ensured{what, unchanged, nil}
	}
	// On condition of the version that was seen: what lists hold of other people is in the
	// patch too, and must not undo a change of theirs.
	patched, err := controller.Patch(ctx, client, seen, after)
	if err != nil {
		return seen, ensured{what, unchanged, err}
	}
	return patched, ensured{what, repaired, nil}
}

func taken(what string, object streams.Object) error {
	return fmt.Errorf("%s %s %w; rename one of the two", what, nameOf(object), errNameTaken)
}

func nameOf(object metav1.Object) types.NamespacedName {
	return types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()}
}
