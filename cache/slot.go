package cache

import (
	"hash/maphash"
	"math/bits"
	"reflect"
	"sync/atomic"

	"github.com/bellerophon-io/bellerophon/streams"
	"k8s.io/apimachinery/pkg/types"
)

// slot is the place of one object. Trees and the table of a view point to it, so that an
// update that moves the object nowhere changes none of them.
type slot struct {
	object atomic.Value          // of a streams.Object; never of another type than the first
	sought *types.NamespacedName // of a pivot, which holds no object
}

func newSlot(object streams.Object) *slot {
	made := &slot{}
	made.object.Store(object)
	return made
}

// pivot is what to look for in a tree.
func pivot(name types.NamespacedName) *slot { return &slot{sought: &name} }

// name is that of the object: a copy of it would take more memory than the slot.
func (s *slot) name() types.NamespacedName {
	if s.sought != nil {
		return *s.sought
	}
	return nameOf(s.get())
}

func (s *slot) get() streams.Object { return s.object.Load().(streams.Object) }

// replace puts another object into the slot, if it is of the same Go type.
func (s *slot) replace(old, object streams.Object) bool {
	if reflect.TypeOf(old) != reflect.TypeOf(object) {
		return false
	}
	s.object.Store(object)
	return true
}

// table finds slots by name. One goroutine changes it, any may read: a reader takes no
// lock, and finds what was there before it began or what came since. It is a hash table
// with open addressing.
type table struct {
	cells atomic.Pointer[[]atomic.Pointer[slot]]
	live  int // slots
	used  int // cells that hold a slot or did
}

var (
	hashSeed = maphash.MakeSeed()
	removed  = &slot{} // in a cell whose slot is gone
)

// leastCells is the size of an empty table. At most 4 of 5 cells are used.
const leastCells = 8

func newTable() *table {
	made := &table{}
	cells := make([]atomic.Pointer[slot], leastCells)
	made.cells.Store(&cells)
	return made
}

// find is the slot of a name, or nil.
func (t *table) find(name types.NamespacedName) *slot {
	cells := *t.cells.Load()
	for i := first(name, cells); ; i++ {
		if i == len(cells) {
			i = 0
		}
		found := cells[i].Load()
		if found == nil || found != removed && found.name() == name {
			return found
		}
	}
}

// first is the index of the cell where a name may be; else it is in one of the next.
func first(name types.NamespacedName, cells []atomic.Pointer[slot]) int {
	index, _ := bits.Mul64(maphash.Comparable(hashSeed, name), uint64(len(cells)))
	return int(index)
}

// set puts a slot in, in the place of the one of the same name, if there is one.
func (t *table) set(added *slot) {
	name := added.name()
	cells := *t.cells.Load()
	if (t.used+1)*5 > len(cells)*4 {
		cells = t.rebuilt()
	}
	i := first(name, cells)
	for ; ; i++ {
		if i == len(cells) {
			i = 0
		}
		found := cells[i].Load()
		if found == nil {
			break
		}
		if found != removed && found.name() == name {
			cells[i].Store(added)
			return
		}
	}
	cells[i].Store(added)
	t.live++
	t.used++
}

// remove takes the slot of a name out.
func (t *table) remove(name types.NamespacedName) {
	cells := *t.cells.Load()
	for i := first(name, cells); ; i++ {
		if i == len(cells) {
			i = 0
		}
		found := cells[i].Load()
		if found == nil {
			return
		}
		if found != removed && found.name() == name {
			cells[i].Store(removed)
			t.live--
			return
		}
	}
}

// rebuilt makes room for a quarter more slots than there are, and shows it to readers.
func (t *table) rebuilt() []atomic.Pointer[slot] {
	cells := make([]atomic.Pointer[slot], max(leastCells, t.live+t.live/2+1))
	old := *t.cells.Load()
	for i := range old {
		kept := old[i].Load()
		if kept == nil || kept == removed {
			continue
		}
		at := first(kept.name(), cells)
		for cells[at].Load() != nil {
			if at++; at == len(cells) {
				at = 0
			}
		}
		cells[at].Store(kept)
	}
	t.used = t.live
	t.cells.Store(&cells)
	return cells
}
