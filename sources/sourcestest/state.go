package sourcestest

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

// objects holds the objects of a kind. An object in the map is never changed.
type objects map[types.NamespacedName]*unstructured.Unstructured

// change is a write. Before is nil for a creation, and after is nil for a deletion.
type change struct {
	place         *served
	key           types.NamespacedName
	version       uint64
	before, after *unstructured.Unstructured
}

// event is an event that a watch sends.
type event struct {
	Type   watch.EventType `json:"type"`
	Object any             `json:"object"`
	key    types.NamespacedName
}

func keyOf(object metav1.Object) types.NamespacedName {
	return types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()}
}

func at(object *unstructured.Unstructured, version uint64) *unstructured.Unstructured {
	object = object.DeepCopy()
	object.SetResourceVersion(strconv.FormatUint(version, 10))
	return object
}

// commit writes one object, or deletes it if after is nil, and pushes the event to the watches. It
// returns the object as stored, or as deleted. The caller holds the lock.
func (s *Server) commit(place *served, key types.NamespacedName, after *unstructured.Unstructured) *unstructured.Unstructured {
	s.version++
	made := change{place: place, key: key, version: s.version, before: place.objects[key]}
	if after == nil {
		delete(place.objects, key)
		delete(place.texts, key)
	} else {
		made.after = at(after, s.version)
		place.unscoped = place.unscoped || key.Namespace == ""
		place.objects[key] = made.after
	}
	if made.before == nil || made.after == nil {
		place.reorder(key)
	}
	s.history = append(s.history, made)
	if len(s.history) > s.options.History {
		s.forgot = s.history[0].version
		s.history = slices.Delete(s.history, 0, 1)
	}
	for watch := range s.watches {
		if event, ok := watch.selected.event(made); ok && made.version > watch.from {
			watch.push(event)
		}
	}
	s.deserve(made)
	if after == nil {
		return at(made.before, s.version)
	}
	return made.after
}

// past returns the objects of a kind that have changed since a version, as they were: nil if there was none. It
// fails if the history no longer reaches back to that version.
func (s *Server) past(place *served, version uint64) (objects, error) {
	if version < s.forgot {
		return nil, expired(version, s.forgot)
	}
	was := objects{}
	for _, made := range slices.Backward(s.history) {
		if made.version <= version {
			break
		}
		if made.place == place {
			was[made.key] = made.before
		}
	}
	return was, nil
}

func expired(version, forgot uint64) error {
	return apierrors.NewResourceExpired(fmt.Sprintf("too old resource version: %d (%d)", version, forgot))
}

// selection selects the objects of a list or a watch.
type selection struct {
	place     *served
	namespace string
	labels    labels.Selector
	fields    fields.Selector
}

func (s selection) selects(object *unstructured.Unstructured) bool {
	if object == nil || s.namespace != "" && s.namespace != object.GetNamespace() {
		return false
	}
	set := fields.Set{"metadata.name": object.GetName(), "metadata.namespace": object.GetNamespace()}
	return s.fields.Matches(set) && s.labels.Matches(labels.Set(object.GetLabels()))
}

// of returns the selected objects, by namespace and name.
func (s selection) of(all objects) []*unstructured.Unstructured {
	var selected []*unstructured.Unstructured
	for _, object := range all {
		if s.selects(object) {
			selected = append(selected, object)
		}
	}
	slices.SortFunc(selected, func(a, b *unstructured.Unstructured) int { return compare(keyOf(a), keyOf(b)) })
	return selected
}

func compare(a, b types.NamespacedName) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

// event returns the event for a change, as a client with this selection sees it. An object that is
// no longer selected is deleted for that client.
func (s selection) event(made change) (event, bool) {
	if made.place != s.place {
		return event{}, false
	}
	was, is := s.selects(made.before), s.selects(made.after)
	switch {
	case is && was:
		return event{watch.Modified, made.after, made.key}, true
	case is:
		return event{watch.Added, made.after, made.key}, true
	case was:
		return event{watch.Deleted, at(made.before, made.version), made.key}, true
	}
	return event{}, false
}
