package cache

import (
	"cmp"
	"slices"

	"github.com/bellerophon-io/bellerophon/streams"
	"github.com/tidwall/btree"
	"k8s.io/apimachinery/pkg/types"
)

// degree is the degree of the trees: a node of 31 items is cheap to copy on write and well filled.
const degree = 16

// view is one state of one kind: objects by name, and by index value. Once it is published, nothing
// changes its trees; copies share what they have in common. The contents of its slots do change:
// see [slot].
type view struct {
	indexers []Indexer
	objects  *btree.BTreeG[*slot]        // by namespace, then name
	indexes  []*btree.BTreeG[indexEntry] // one for each of indexers
	scopes   scopes

	old, new []string // index values, in memory that put and remove reuse
}

// indexEntry is an object under a value of an index.
type indexEntry struct {
	value string
	slot  *slot
}

// compareNames orders names by namespace, then by name.
func compareNames(a, b types.NamespacedName) int {
	if order := cmp.Compare(a.Namespace, b.Namespace); order != 0 {
		return order
	}
	return cmp.Compare(a.Name, b.Name)
}

// byName orders slots by the names of their objects.
func byName(a, b *slot) bool { return compareNames(a.name(), b.name()) < 0 }

// byValue orders the entries of an index by value, then by name.
func byValue(a, b indexEntry) bool {
	if a.value != b.value {
		return a.value < b.value
	}
	return byName(a.slot, b.slot)
}

// newView creates an empty view.
func newView(indexers []Indexer) *view {
	unlocked := btree.Options{Degree: degree, NoLocks: true}
	v := &view{indexers: indexers, objects: btree.NewBTreeGOptions(byName, unlocked)}
	for range indexers {
		v.indexes = append(v.indexes, btree.NewBTreeGOptions(byValue, unlocked))
	}
	return v
}

// copy returns a view whose trees can be changed without changing the trees of this one. It takes
// constant time.
func (v *view) copy() *view {
	copied := &view{indexers: v.indexers, objects: v.objects.Copy(), scopes: slices.Clone(v.scopes)}
	for _, index := range v.indexes {
		copied.indexes = append(copied.indexes, index.Copy())
	}
	return copied
}

// find returns the slot of a name, or nil.
func (v *view) find(name types.NamespacedName) *slot {
	found, _ := v.objects.Get(pivot(name))
	return found
}

// put puts an object in, in a new slot. The new slot takes the place of held, if that is not nil.
func (v *view) put(held *slot, object streams.Object) *slot {
	var old streams.Object
	if held != nil {
		old = held.get()
	}
	added := newSlot(object)
	v.objects.Set(added)
	for i := range v.indexers {
		v.old, v.new = v.old[:0], v.indexers[i].Values(object, v.new[:0])
		if old != nil {
			v.old = v.indexers[i].Values(old, v.old)
		}
		for _, value := range v.old {
			if !slices.Contains(v.new, value) {
				v.indexes[i].Delete(indexEntry{value, held})
			}
		}
		for _, value := range v.new {
			v.indexes[i].Set(indexEntry{value, added})
		}
	}
	return added
}

// sameIndexValues reports whether two states of an object have the same index values.
func (v *view) sameIndexValues(old, object streams.Object) bool {
	for i := range v.indexers {
		v.old, v.new = v.indexers[i].Values(old, v.old[:0]), v.indexers[i].Values(object, v.new[:0])
		if !slices.Equal(v.old, v.new) {
			return false
		}
	}
	return true
}

// remove removes the object of a slot.
func (v *view) remove(held *slot) {
	v.objects.Delete(held)
	object := held.get()
	for i := range v.indexers {
		v.old = v.indexers[i].Values(object, v.old[:0])
		for _, value := range v.old {
			v.indexes[i].Delete(indexEntry{value, held})
		}
	}
}

// scan calls visit with the slots of a namespace, or of all if namespace is empty, in the order of
// names.
func (v *view) scan(namespace string, visit func(*slot)) {
	v.objects.Ascend(pivot(types.NamespacedName{Namespace: namespace}), func(found *slot) bool {
		if namespace != "" && found.name().Namespace != namespace {
			return false
		}
		visit(found)
		return true
	})
}

// scanIndex calls visit with the slots that have a value in an index, by namespace and name.
func (v *view) scanIndex(name, value string, visit func(*slot)) {
	for i, indexer := range v.indexers {
		if indexer.Name != name {
			continue
		}
		v.indexes[i].Ascend(indexEntry{value, pivot(types.NamespacedName{})}, func(found indexEntry) bool {
			if found.value != value {
				return false
			}
			visit(found.slot)
			return true
		})
	}
}

// nameOf returns the namespace and name of an object.
func nameOf(object streams.Object) types.NamespacedName {
	return types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()}
}
