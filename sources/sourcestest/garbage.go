package sourcestest

import (
	"cmp"
	"maps"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// The garbage collector has no goroutine. Requests, open watches and the functions for tests run it first
// when it is due, so that no client sees a state without its work. Each run decides by the objects as they
// are at its start, and a run that writes makes the next one due. The caller holds the lock.

// stored is an object with its place.
type stored struct {
	place  *served
	object *unstructured.Unstructured
}

func (s stored) key() types.NamespacedName { return keyOf(s.object) }

// deserve makes a run of the collector due if a write may leave garbage.
func (s *Server) deserve(made change) {
	after := made.after
	if s.options.GarbageCollection == 0 || after != nil && len(after.GetOwnerReferences()) == 0 && after.GetDeletionTimestamp() == nil {
		return
	}
	s.collectSoon()
}

func (s *Server) collectSoon() {
	if s.options.GarbageCollection == 0 || !s.collectAt.IsZero() {
		return
	}
	from := s.collecting
	if from.IsZero() {
		from = time.Now()
	}
	s.collectAt = from.Add(s.options.GarbageCollection)
	for watch := range s.watches {
		watch.wake() // It waits until the collector is due at the latest.
	}
}

// collect runs the collector as often as it is due.
func (s *Server) collect() {
	for !s.collectAt.IsZero() && !time.Now().Before(s.collectAt) {
		s.collecting, s.collectAt = s.collectAt, time.Time{}
		for _, act := range s.garbage() {
			act()
		}
	}
	s.collecting = time.Time{}
}

// garbage returns what the collector has to do.
func (s *Server) garbage() (acts []func()) {
	all := s.everything()
	byUID, dependents := map[types.UID]stored{}, map[types.UID][]stored{}
	for _, one := range all {
		byUID[one.object.GetUID()] = one
		for _, owner := range one.object.GetOwnerReferences() {
			dependents[owner.UID] = append(dependents[owner.UID], one)
		}
	}
	for _, one := range all {
		uid, deleting := one.object.GetUID(), one.object.GetDeletionTimestamp() != nil
		switch {
		case one.waits():
			blocks := func(dependent stored) bool { return dependent.blocks(uid) }
			if !slices.ContainsFunc(dependents[uid], blocks) {
				acts = append(acts, s.dropFinalizer(one, metav1.FinalizerDeleteDependents))
			}
		case deleting && slices.Contains(one.object.GetFinalizers(), metav1.FinalizerOrphanDependents):
			for _, dependent := range dependents[uid] {
				acts = append(acts, s.dropOwners(dependent, uid))
			}
			acts = append(acts, s.dropFinalizer(one, metav1.FinalizerOrphanDependents))
		case !deleting && len(one.object.GetOwnerReferences()) > 0:
			acts = append(acts, s.judge(one, byUID, dependents[uid])...)
		}
	}
	return acts
}

// everything returns all objects, in one order.
func (s *Server) everything() (all []stored) {
	byName := func(a, b schema.GroupVersionKind) int { return cmp.Compare(a.String(), b.String()) }
	for _, kind := range slices.SortedFunc(maps.Keys(s.places), byName) {
		place := s.places[kind]
		every := selection{place: place, labels: labels.Everything(), fields: fields.Everything()}
		for _, object := range every.of(place.objects) {
			all = append(all, stored{place, object})
		}
	}
	return all
}

// blocks reports whether the owner waits for the object when it is deleted in the foreground.
func (s stored) blocks(owner types.UID) bool {
	return slices.ContainsFunc(s.object.GetOwnerReferences(), func(reference metav1.OwnerReference) bool {
		return reference.UID == owner && reference.BlockOwnerDeletion != nil && *reference.BlockOwnerDeletion
	})
}

// judge decides about an object with owners: it is deleted when none of them is left or stays, and loses
// the references to the others.
func (s *Server) judge(one stored, byUID map[types.UID]stored, dependents []stored) []func() {
	var staying, waiting bool
	var gone []types.UID
	for _, reference := range one.object.GetOwnerReferences() {
		group, err := schema.ParseGroupVersion(reference.APIVersion)
		place := s.places[group.WithKind(reference.Kind)]
		if err != nil || place == nil || place.gone {
			return nil // Nothing is known about the owner.
		}
		owner, found := byUID[reference.UID]
		found = found && owner.place.kind.GroupKind() == place.kind.GroupKind() && owner.object.GetName() == reference.Name
		namespaced := found && owner.object.GetNamespace() != "" || !found && !place.isUnscoped()
		switch {
		case namespaced && one.object.GetNamespace() == "":
			return nil // An object without a namespace cannot name an owner in one.
		case !found || namespaced && owner.object.GetNamespace() != one.object.GetNamespace():
			gone = append(gone, reference.UID)
		case owner.waits():
			waiting, gone = true, append(gone, reference.UID)
		default:
			staying = true
		}
	}
	var options metav1.DeleteOptions
	remove := func() { _, _ = s.remove(one.place, one.key(), options) } // Another act may have deleted it.
	switch {
	case len(gone) == 0:
		return nil
	case staying:
		return []func(){s.dropOwners(one, gone...)}
	case !waiting || len(dependents) == 0:
		return []func(){remove}
	}
	foreground := metav1.DeletePropagationForeground
	options.PropagationPolicy = &foreground
	if slices.ContainsFunc(dependents, stored.waits) { // In a circle of owners, each would wait for the next.
		return []func(){s.unblock(one), remove}
	}
	return []func(){remove}
}

// waits reports whether the object is deleted in the foreground.
func (s stored) waits() bool {
	return s.object.GetDeletionTimestamp() != nil && slices.Contains(s.object.GetFinalizers(), metav1.FinalizerDeleteDependents)
}

// unblock lets the owners of an object no longer wait for it.
func (s *Server) unblock(one stored) func() {
	return s.amend(one, func(object *unstructured.Unstructured) {
		references := object.GetOwnerReferences()
		for i := range references {
			if references[i].BlockOwnerDeletion != nil {
				references[i].BlockOwnerDeletion = new(bool)
			}
		}
		object.SetOwnerReferences(references)
	})
}

func (s *Server) dropFinalizer(one stored, name string) func() {
	return s.amend(one, func(object *unstructured.Unstructured) {
		object.SetFinalizers(slices.DeleteFunc(object.GetFinalizers(), func(other string) bool { return other == name }))
	})
}

func (s *Server) dropOwners(one stored, uids ...types.UID) func() {
	return s.amend(one, func(object *unstructured.Unstructured) {
		object.SetOwnerReferences(slices.DeleteFunc(object.GetOwnerReferences(), func(reference metav1.OwnerReference) bool {
			return slices.Contains(uids, reference.UID)
		}))
	})
}

// amend returns an act that changes an object, if it still exists then.
func (s *Server) amend(one stored, change func(*unstructured.Unstructured)) func() {
	return func() {
		if now := one.place.objects[one.key()]; now != nil {
			after := now.DeepCopy()
			change(after)
			_, _ = s.update(one.place, one.key(), after, writing{part: whole, manager: "kube-controller-manager"}) // Nothing forbids it.
		}
	}
}
