package cache

import (
	"hash/maphash"
	"math/bits"
	"reflect"
	"sync/atomic"

	"github.com/bellerophon-io/bellerophon/streams"
	"k8s.io/apimachinery/pkg/types"
)

// slot is the place of one object. Trees and the table of a view point to it. So an update that
// does not move the object changes none of them.
type slot struct {
	object atomic.Value // a streams.Object; always of the same type as the first
}

// newSlot creates a slot that holds an object.
func newSlot(object streams.Object) *slot {
	made := &slot{}
	made.object.Store(object)
	return made
}

// sought stands for an object when only its name is available.
type sought struct {
	streams.Object // nil: only the name is asked for
	name           types.NamespacedName
}

func (s *sought) GetNamespace() string { return s.name.Namespace }
func (s *sought) GetName() string      { return s.name.Name }

// pivot returns a slot with which to look for a name in a tree.
func pivot(name types.NamespacedName) *slot { return newSlot(&sought{name: name}) }

// name returns the name of the object. A copy of it would take more memory than the slot.
func (s *slot) name() types.NamespacedName { return nameOf(s.get()) }

// get returns the object.
func (s *slot) get() streams.Object { return s.object.Load().(streams.Object) }

// replace puts another object into the slot, if it has the same Go type.
func (s *slot) replace(old, object streams.Object) bool {
	if reflect.TypeOf(old) != reflect.TypeOf(object) {
		return false
	}
	s.object.Store(object)
	return true
}

// table finds slots by name. One goroutine changes it, and any may read. A reader takes no lock,
// and finds what was there before it began or what came since. It is a hash table with open
// addressing.
type table struct {
	cells atomic.Pointer[cells]
	live  int // slots
	used  int // cells that hold a slot or have held one
}

// cells are the cells of a table. A cell has a tag, which is one byte of the hash of the name.
// Because of tags, a search passes other names without reading their objects. A cell is empty while
// its tag is 0; a cell whose slot is gone keeps its tag.
type cells struct {
	slots []atomic.Pointer[slot]
	tags  []atomic.Uint32 // four to a word
}

var (
	hashSeed = maphash.MakeSeed()
	removed  = &slot{} // marks a cell whose slot is gone
)

// leastCells is the size of an empty table. At most 7 of 8 cells are used.
const leastCells = 8

// emptyCells is the size above which a table shrinks if it is nearly empty.
const emptyCells = 1 << 12

// newTable creates an empty table.
func newTable() *table {
	made := &table{}
	made.cells.Store(newCells(leastCells))
	return made
}

// newCells creates a number of empty cells.
func newCells(size int) *cells {
	return &cells{make([]atomic.Pointer[slot], size), make([]atomic.Uint32, (size+3)/4)}
}

// place returns the first cell where a name may be, and the tag of the name. If the name is not
// there, it is in one of the next cells.
func (c *cells) place(name types.NamespacedName) (cell int, tag uint32) {
	hash := maphash.Comparable(hashSeed, name)
	index, _ := bits.Mul64(hash, uint64(len(c.slots)))
	return int(index), max(uint32(hash&0xff), 1)
}

// next returns the cell after a cell, and the first one after the last.
func (c *cells) next(cell int) int {
	if cell++; cell < len(c.slots) {
		return cell
	}
	return 0
}

// tag returns the tag of a cell.
func (c *cells) tag(cell int) uint32 { return c.tags[cell/4].Load() >> (cell % 4 * 8) & 0xff }

// fill puts a slot into an empty cell. It sets the tag last, because readers look at the tag first.
func (c *cells) fill(cell int, tag uint32, added *slot) {
	c.slots[cell].Store(added)
	c.tags[cell/4].Or(tag << (cell % 4 * 8))
}

// find returns the cell of a name and its slot. If there is none, it returns the empty cell where
// the name could be, and nil.
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

// find returns the slot of a name, or nil.
func (t *table) find(name types.NamespacedName) *slot {
	_, _, found := t.cells.Load().find(name)
	return found
}

// set puts a slot in, in the place of the slot with the same name, if there is one.
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

// remove removes the slot of a name.
func (t *table) remove(name types.NamespacedName) {
	cells := t.cells.Load()
	if cell, _, found := cells.find(name); found != nil {
		cells.slots[cell].Store(removed)
		t.live--
		if len(cells.slots) > emptyCells && t.live < len(cells.slots)/8 {
			t.rebuilt() // The table has shrunk after a burst.
		}
	}
}

// rebuilt makes room for a third more slots than there are, and publishes the new cells to readers.
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
