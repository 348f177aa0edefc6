package cache

import (
	"cmp"
	"slices"

	"github.com/bellerophon-io/bellerophon/streams"
	"github.com/tidwall/btree"
	"k8s.io/apimachinery/pkg/types"
)

// degree of the trees: a node of 31 items is cheap to copy on write and well filled.
const degree = 16

// view is one state of one kind: objects by name, and by index value. Once it is
// published nothing changes its trees; copies share what they have in common. What its
// slots hold does change: see [slot].
type view struct {
	indexers []Indexer
	objects  *btree.BTreeG[*slot]   // by namespace, then name
	indexes  []*btree.BTreeG[filed] // as indexers
	scopes   scopes

	old, new []string // index values, for put and remove to use again
}

// filed is an object under a value of an index.
type filed struct {
	value string
	slot  *slot
}

func compareNames(a, b types.NamespacedName) int {
	if order := cmp.Compare(a.Namespace, b.Namespace); order != 0 {
		return order
	}
	return cmp.Compare(a.Name, b.Name)
}

func byName(a, b *slot) bool { return compareNames(a.name(), b.name()) < 0 }

func byValue(a, b filed) bool {
	if a.value != b.value {
		return a.value < b.value
	}
	return byName(a.slot, b.slot)
}

func newView(indexers []Indexer) *view {
	unlocked := btree.Options{Degree: degree, NoLocks: true}
	v := &view{indexers: indexers, objects: btree.NewBTreeGOptions(byName, unlocked)}
	for range indexers {
		v.indexes = append(v.indexes, btree.NewBTreeGOptions(byValue, unlocked))
	}
	return v
}

// copy is a view whose trees can be changed without changing those of this one. It takes
// constant time.
func (v *view) copy() *view {
	copied := &view{indexers: v.indexers, objects: v.objects.Copy(), scopes: slices.Clone(v.scopes)}
	for _, index := range v.indexes {
		copied.indexes = append(copied.indexes, index.Copy())
	}
	return copied
}

func (v *view) find(name types.NamespacedName) *slot {
	found, _ := v.objects.Get(pivot(name))
	return found
}

// put puts an object in, in a new slot, in the place of another slot, if that is not nil.
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
				v.indexes[i].Delete(filed{value, held})
			}
		}
		for _, value := range v.new {
			v.indexes[i].Set(filed{value, added})
		}
	}
	return added
}

// stays says whether an object has the index values of another.
func (v *view) stays(old, object streams.Object) bool {
	for i := range v.indexers {
		v.old, v.new = v.indexers[i].Values(old, v.old[:0]), v.indexers[i].Values(object, v.new[:0])
		if !slices.Equal(v.old, v.new) {
			return false
		}
	}
	return true
}

func (v *view) remove(held *slot) {
	v.objects.Delete(held)
	object := held.get()
	for i := range v.indexers {
		v.old = v.indexers[i].Values(object, v.old[:0])
		for _, value := range v.old {
			v.indexes[i].Delete(filed{value, held})
		}
	}
}

// scan calls visit with the slots of a namespace, or all, if it is empty, by name.
func (v *view) scan(namespace string, visit func(*slot)) {
	v.objects.Ascend(pivot(types.NamespacedName{Namespace: namespace}), func(found *slot) bool {
		if namespace != "" && found.name().Namespace != namespace {
			return false
		}
		visit(found)
		return true
	})
}

// scanIndex calls visit with the slots that have a value in an index, by namespace and
// name.
func (v *view) scanIndex(name, value string, visit func(*slot)) {
	for i, indexer := range v.indexers {
		if indexer.Name != name {
			continue
		}
		v.indexes[i].Ascend(filed{value, pivot(types.NamespacedName{})}, func(found filed) bool {
			if found.value != value {
				return false
			}
			visit(found.slot)
			return true
		})
	}
}

func nameOf(object streams.Object) types.NamespacedName {
	return types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()}
}
