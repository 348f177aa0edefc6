package hero

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"sync"

	v1 "github.com/bellerophon-io/bellerophon/bellerophon/api/hero/v1"
	"github.com/bellerophon-io/bellerophon/bellerophon/owned"
	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/streams"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// applied remembers which desired state each child got, and the version of the child afterwards. A child is applied again
// when either has changed, so another client's change is undone. Its methods may be called from any goroutine.
type applied struct {
	seed maphash.Seed
	mu   sync.Mutex
	of   map[childKey]childState
}

type childKey struct {
	kind string
	name types.NamespacedName
}

type childState struct {
	uid     types.UID
	version string // the generation, or the resource version of a kind without one
	desired uint64
}

func newApplied() *applied { return &applied{seed: maphash.MakeSeed(), of: map[childKey]childState{}} }

// is reports whether a child has a state. known is whether this process has applied the child before.
func (a *applied) is(key childKey, state childState) (same, known bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	last, known := a.of[key]
	return known && last == state, known
}

func (a *applied) set(key childKey, state childState) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.of[key] = state
}

// gone forgets the children of a hero.
func (a *applied) gone(hero types.NamespacedName) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for key := range a.of {
		for _, ending := range []string{"", "-members", "-backup"} {
			if key.name == (types.NamespacedName{Namespace: hero.Namespace, Name: hero.Name + ending}) {
				delete(a.of, key)
			}
		}
	}
}

// reasonRefused is the reason of a child that the API server finds invalid.
const reasonRefused = "SpecRefused"

func versionOf(object metav1.Object) string {
	if generation := object.GetGeneration(); generation > 0 {
		return fmt.Sprint(generation)
	}
	return object.GetResourceVersion()
}

// keep brings a child to its desired state. held is the child in the cache, and whole the desired one.
func keep[H, W streams.Object](ctx context.Context, r *reconciler, hero *v1.Bellerophon, kind string, whole W) error {
	content, err := json.Marshal(whole)
	if err != nil {
		return fmt.Errorf("applying %s %s: %w", kind, whole.GetName(), err)
	}
	key := childKey{kind, types.NamespacedName{Namespace: whole.GetNamespace(), Name: whole.GetName()}}
	state := childState{desired: maphash.Bytes(r.applied.seed, content)}
	how := []controller.WriteOption{controller.Force(), controller.Adopt()}
	held, err := controller.Get[H](ctx, r.client, key.name)
	switch {
	case apierrors.IsNotFound(err):
	case err != nil:
		return err
	case !metav1.IsControlledBy(held, hero) && metav1.GetControllerOfNoCopy(held) != nil:
		return problem{reason: "NameConflict", message: fmt.Sprintf("%s %s %v", kind, key.name.Name, errNameTaken)}
	default:
		state.uid, state.version = held.GetUID(), versionOf(held)
		same, known := r.applied.is(key, state)
		if same {
			return nil
		}
		if !known { // An earlier process, or another replica, has mostly applied the same.
			how = append(how, controller.ReadFirst())
		}
	}
	written, err := controller.Apply[W](ctx, r.client, controller.ApplyConfigurationOf(whole), how...)
	if apierrors.IsInvalid(err) { // The definition of the kind cannot hold all rules of its children.
		return problem{reason: reasonRefused, message: fmt.Sprintf("the API server refuses the %s %s: %v; change spec", kind, key.name.Name, err)}
	}
	if err != nil {
		return fmt.Errorf("applying %s %s: %w", kind, key.name.Name, err)
	}
	state.uid, state.version = written.GetUID(), versionOf(written)
	r.applied.set(key, state)
	return nil
}

// keepChildren keeps all children. The number of pods stays as it is: shrink and grow change it.
func (r *reconciler) keepChildren(ctx context.Context, v *view) error {
	if err := keep[*owned.ConfigMap](ctx, r, v.hero, "ConfigMap", configOf(v.hero)); err != nil {
		return err
	}
	if err := keep[*owned.Service](ctx, r, v.hero, "Service", membersServiceOf(v.hero)); err != nil {
		return err
	}
	if err := keep[*owned.Service](ctx, r, v.hero, "Service", serviceOf(v.hero)); err != nil {
		return err
	}
	if err := keep[*policyv1.PodDisruptionBudget](ctx, r, v.hero, "PodDisruptionBudget", budgetOf(v.hero)); err != nil {
		return err
	}
	var found problem
	if err := r.keepBackups(ctx, v); errors.As(err, &found) {
		v.postpone(found)
	} else if err != nil {
		return err
	}
	if err := r.growVolumes(ctx, v); errors.As(err, &found) {
		v.postpone(found)
		v.size = sizeOf(v.set)
	} else if err != nil {
		return err
	}
	if err := r.keepSet(ctx, v, v.kept()); errors.As(err, &found) && found.reason == reasonRefused && v.set != nil {
		v.postpone(found) // The StatefulSet stays as it is, and its members still need their steps.
		return nil
	} else if err != nil {
		return err
	}
	// The view is of the time before that write.
	written, err := controller.Get[*owned.StatefulSet](ctx, r.client, nameOf(v.hero))
	if err != nil || v.set == nil || written.Generation != v.set.Generation {
		return waiting("the StatefulSet changes")
	}
	return nil
}

func (r *reconciler) keepSet(ctx context.Context, v *view, replicas int32) error {
	hero := v.hero
	if v.size != nil {
		hero = hero.DeepCopy()
		hero.Spec.Storage.Size = *v.size
	}
	return keep[*owned.StatefulSet](ctx, r, v.hero, "StatefulSet", setOf(hero, replicas))
}
