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
	object atomic.Value // of a streams.Object; never of another type than the first
}

func newSlot(object streams.Object) *slot {
	made := &slot{}
	made.object.Store(object)
	return made
}

// sought stands for an object of which only the name is known.
type sought struct {
	streams.Object // Nobody asks for more.
	name           types.NamespacedName
}

func (s *sought) GetNamespace() string { return s.name.Namespace }
func (s *sought) GetName() string      { return s.name.Name }

// pivot is what to look for in a tree.
func pivot(name types.NamespacedName) *slot { return newSlot(&sought{name: name}) }

// name is that of the object: a copy of it would take more memory than the slot.
func (s *slot) name() types.NamespacedName { return nameOf(s.get()) }

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
	cells atomic.Pointer[cells]
	live  int // slots
	used  int // cells that hold a slot or did
}

// cells are the cells of a table. A cell has a tag, a byte of the hash of the name, so that
// other names are passed by without a look at their objects. A cell is empty while its tag
// is 0; one whose slot is gone keeps its tag.
type cells struct {
	slots []atomic.Pointer[slot]
	tags  []atomic.Uint32 // four to a word
}

var (
	hashSeed = maphash.MakeSeed()
	removed  = &slot{} // in a cell whose slot is gone
)

// leastCells is the size of an empty table. At most 7 of 8 cells are used.
const leastCells = 8

// emptyCells is the size from which on a table shrinks that is nearly empty.
const emptyCells = 1 << 12

func newTable() *table {
	made := &table{}
	made.cells.Store(newCells(leastCells))
	return made
}

func newCells(size int) *cells {
	return &cells{make([]atomic.Pointer[slot], size), make([]atomic.Uint32, (size+3)/4)}
}

// place is the cell where a name may be, else it is in one of the next, and its tag.
func (c *cells) place(name types.NamespacedName) (cell int, tag uint32) {
	hash := maphash.Comparable(hashSeed, name)
	index, _ := bits.Mul64(hash, uint64(len(c.slots)))
	return int(index), max(uint32(hash&0xff), 1)
}

func (c *cells) next(cell int) int {
	if cell++; cell < len(c.slots) {
		return cell
	}
	return 0
}

func (c *cells) tag(cell int) uint32 { return c.tags[cell/4].Load() >> (cell % 4 * 8) & 0xff }

// fill puts a slot into an empty cell: the tag last, which is what readers look at first.
func (c *cells) fill(cell int, tag uint32, added *slot) {
	c.slots[cell].Store(added)
	c.tags[cell/4].Or(tag << (cell % 4 * 8))
}

// find is the cell of a name and its slot, or nil and the empty cell where it could be.
func (c *cells) find(name types.NamespacedName) (cell int, tag uint32, found *slot) {
	cell, tag = c.place(name)
	for ; ; cell = c.next(cell) {
		switch c.tag(cell) {
		case 0:
			return cell, tag, nil
		case tag:
			if found = c.slots[cell].Load(); found != removed && found.name() == name {
				return cell, tag, found
			}
		}
	}
}

// find is the slot of a name, or nil.
func (t *table) find(name types.NamespacedName) *slot {
	_, _, found := t.cells.Load().find(name)
	return found
}

// set puts a slot in, in the place of the one of the same name, if there is one.
func (t *table) set(added *slot) {
	cells := t.cells.Load()
	if (t.used+1)*8 > len(cells.slots)*7 {
		cells = t.rebuilt()
	}
	cell, tag, found := cells.find(added.name())
	if found != nil {
		cells.slots[cell].Store(added)
		return
	}
	cells.fill(cell, tag, added)
	t.live++
	t.used++
}

// remove takes the slot of a name out.
func (t *table) remove(name types.NamespacedName) {
	cells := t.cells.Load()
	if cell, _, found := cells.find(name); found != nil {
		cells.slots[cell].Store(removed)
		t.live--
		if len(cells.slots) > emptyCells && t.live < len(cells.slots)/8 {
			t.rebuilt() // It was a burst.
		}
	}
}

// rebuilt makes room for a third more slots than there are, and shows it to readers.
func (t *table) rebuilt() *cells {
	made := newCells(max(leastCells, t.live+t.live/3+1))
	old := t.cells.Load()
	for i := range old.slots {
		kept := old.slots[i].Load()
		if kept == nil || kept == removed {
			continue
		}
		cell, tag := made.place(kept.name())
		for made.tag(cell) != 0 {
			cell = made.next(cell)
		}
		made.fill(cell, tag, kept)
	}
	t.used = t.live
	t.cells.Store(made)
	return made
}
