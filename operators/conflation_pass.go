package operators

import (
	"hash/maphash"
	"slices"
	"time"

	"github.com/bellerophon-io/bellerophon/streams"
)

// passing finds the events of one key in a batch that passes. It is a hash table that the next
// batch empties at no cost: a cell belongs to the batch whose number it holds.
type passing struct {
	batch uint32
	cells [4 * debounceBatch]struct {
		batch uint32
		at    uint16 // index among the events that pass
	}
}

var passingSeed = maphash.MakeSeed()

// find returns the last event of the same source and key among the events that pass, and the cell
// for it. It returns nil if there is no such event.
func (p *passing) find(pass []streams.Event, event *streams.Event) (known *streams.Event, cell uint64) {
	for cell = maphash.Comparable(passingSeed, event.Key.NamespacedName); ; cell++ {
		cell %= uint64(len(p.cells))
		if p.cells[cell].batch != p.batch {
			return nil, cell
		}
		known = &pass[p.cells[cell].at]
		if known.Key == event.Key && known.Source == event.Source {
			return known, cell
		}
	}
}

// note records that the event of a cell is the next one to pass.
func (p *passing) note(pass []streams.Event, cell uint64) {
	p.cells[cell].batch, p.cells[cell].at = p.batch, uint16(len(pass))
}

// pass lets the events of a batch go on at once, in the same slice. These are the events of keys
// that may pass, coalesced, and they open the windows of their keys. The other events of the batch
// are added to the conflation.
//
// pass does nothing and returns false if the batch is larger than debounceBatch, or holds more than
// the events of keys. It must not be called while anything is ready.
func (c *conflation) pass(batch []streams.Event, now time.Time) ([]streams.Event, bool) {
	if len(batch) > debounceBatch {
		return nil, false
	}
	for i := range batch {
		if kind := batch[i].Type; kind != streams.Applied && kind != streams.Deleted {
			return nil, false
		}
	}
	c.passing.batch++
	pass := batch[:0]
	for i := range batch {
		event := &batch[i]
		event.Coalesced = slices.Clip(event.Coalesced)
		known, cell := c.passing.find(pass, event)
		if known != nil {
			if !coalesceInto(known, event) {
				c.passing.note(pass, cell) // Later events are coalesced into this one.
				pass = append(pass, *event)
			}
			continue
		}
		if c.window > 0 {
			key, mayPass := c.admit(c.origin(event.Source), event.Key)
			if !mayPass {
				c.size++
				c.hold(key, event)
				continue
			}
			c.recordPass(key, now)
		}
		c.passing.note(pass, cell)
		pass = append(pass, *event)
	}
	clear(batch[len(pass):])
	return pass, true
}
