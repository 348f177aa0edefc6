package sourcestest

import (
	"encoding/json"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// ordered returns the keys of all objects by namespace and name. The order is kept between lists, because a list
// in pages would otherwise sort all objects for each page.
func (s *served) ordered() []types.NamespacedName {
	if s.order == nil {
		s.order = make([]types.NamespacedName, 0, len(s.objects))
		for key := range s.objects {
			s.order = append(s.order, key)
		}
		slices.SortFunc(s.order, compare)
	}
	return s.order
}

// reorder takes in that an object was created or deleted. An object behind all others keeps the order.
func (s *served) reorder(key types.NamespacedName) {
	if last := len(s.order) - 1; last >= 0 && s.objects[key] != nil && compare(s.order[last], key) < 0 {
		s.order = append(s.order, key)
	} else {
		s.order = nil
	}
}

// page returns the selected objects behind a key, by namespace and name, and whether there are more than limit. It
// returns all of them if limit is 0. was has the objects that have changed since the version of the list.
func (s selection) page(was objects, after types.NamespacedName, limit uint64) (items []*unstructured.Unstructured, more bool) {
	keys := s.place.ordered()
	var gone []types.NamespacedName
	for key, object := range was {
		if object != nil && s.place.objects[key] == nil {
			gone = append(gone, key)
		}
	}
	if len(gone) > 0 {
		keys = slices.Concat(keys, gone)
		slices.SortFunc(keys, compare)
	}
	first, found := slices.BinarySearchFunc(keys, after, compare)
	if found {
		first++
	}
	for _, key := range keys[first:] {
		object, changed := was[key]
		if !changed {
			object = s.place.objects[key]
		}
		if !s.selects(object) {
			continue
		}
		if limit > 0 && uint64(len(items)) == limit {
			return items, true
		}
		items = append(items, object)
	}
	return items, false
}

// asText is an object as JSON.
type asText struct {
	of   *unstructured.Unstructured // an object in the map is never changed, so the text is valid while it is the same
	text json.RawMessage
}

// text returns an object as JSON. The text is kept, because encoding takes most of the time of a list.
func (s *served) text(object *unstructured.Unstructured) json.RawMessage {
	key := keyOf(object)
	if known := s.texts[key]; known.of == object {
		return known.text
	}
	made, err := json.Marshal(object.Object)
	if err != nil {
		panic(fmt.Sprintf("sourcestest: encoding %v: %v", key, err)) // All stored values came from JSON.
	}
	if s.objects[key] == object {
		s.texts[key] = asText{object, made}
	}
	return made
}
