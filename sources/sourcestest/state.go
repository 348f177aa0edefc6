package sourcestest

import (
	"cmp"
	"fmt"
	"maps"
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

// objects are the objects of a kind. Those that are in are never changed.
type objects map[types.NamespacedName]*unstructured.Unstructured

// change is a write. Before and after are nil where there was nothing.
type change struct {
	place         *served
	key           types.NamespacedName
	version       uint64
	before, after *unstructured.Unstructured
}

// event is what a watch sends.
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

// commit writes one object, or deletes it if after is nil, and tells the watches. It
// returns what is stored then, or what was deleted. The caller holds the lock.
func (s *Server) commit(place *served, key types.NamespacedName, after *unstructured.Unstructured) *unstructured.Unstructured {
	s.version++
	made := change{place: place, key: key, version: s.version, before: place.objects[key]}
	if after == nil {
		delete(place.objects, key)
	} else {
		made.after = at(after, s.version)
		place.objects[key] = made.after
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
	if after == nil {
		return at(made.before, s.version)
	}
	return made.after
}

// past is the objects of a kind as they were at a version that is not forgotten.
func (s *Server) past(place *served, version uint64) (objects, error) {
	if version < s.forgot {
		return nil, expired(version, s.forgot)
	}
	then := maps.Clone(place.objects)
	for _, made := range slices.Backward(s.history) {
		switch {
		case made.version <= version:
			return then, nil
		case made.place != place:
		case made.before == nil:
			delete(then, made.key)
		default:
			then[made.key] = made.before
		}
	}
	return then, nil
}

func expired(version, forgot uint64) error {
	return apierrors.NewResourceExpired(fmt.Sprintf("too old resource version: %d (%d)", version, forgot))
}

// selection is what a list or a watch is about.
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

// of is the objects that are selected, by namespace and name.
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

// event is what a change is to those who see only what is selected: an object that is no
// longer selected is gone.
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
