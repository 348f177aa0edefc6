package operators

import (
	"hash/maphash"
	"slices"
	"time"

	"github.com/bellerophon-io/bellerophon/streams"
)

// passing finds the events of one key in a batch that passes. It is a hash table that is
// empty again with the next batch, at no cost.
type passing struct {
	batch uint32
	cells [4 * debounceBatch]struct {
		batch uint32
		at    uint16 // of the batch
	}
}

var passingSeed = maphash.MakeSeed()

// find is the last event of the same source and key among those that pass, or nil, and the
// cell for it.
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

// note notes that the event of a cell comes next.
func (p *passing) note(pass []streams.Event, cell uint64) {
	p.cells[cell].batch, p.cells[cell].at = p.batch, uint16(len(pass))
}

// pass lets a batch go on at once, in the same slice: the events of cold keys, folded,
// which are hot from now on. Those of hot keys are added. It is false, and nothing is done,
// if the batch is more than events of keys. Nothing must be ready.
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
			if !foldInto(known, event) {
				c.passing.note(pass, cell) // What follows is folded into this one.
				pass = append(pass, *event)
			}
			continue
		}
		if c.window > 0 {
			from := c.origin(event.Source)
			key := from.keys.get(event.Key)
			if key != nil && (key.waiting != nil || !c.mayPass(key)) {
				c.addKeyed(from, event, now)
				c.size++
				continue
			}
			if key == nil {
				key = c.newKey(from, event.Key)
				from.keys.set(event.Key, key)
			}
			c.heat(key, now)
		}
		c.passing.note(pass, cell)
		pass = append(pass, *event)
	}
	clear(batch[len(pass):])
	return pass, true
}
