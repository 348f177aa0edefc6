package operators

import (
	"time"

	"github.com/bellerophon-io/bellerophon/streams"
	"github.com/reactivex/rxgo/v2"
)

// slack is the part of the window by which an event may go out early, together with
// others: so that many busy keys do not cost a timer each.
const slack = 16

// due is when tick has something to do.
func (c *conflation) due() (time.Time, bool) {
	if c.waits.len() > 0 {
		return c.waits.all()[0].at, true
	}
	if c.quiets.len() > 0 { // There is no hurry: add knows cold keys by itself.
		return c.quiets.all()[0].at.Add(c.window), true
	}
	return time.Time{}, false
}

// tick lets go what has waited for its window, and forgets keys that are cold.
func (c *conflation) tick(now time.Time) {
	for horizon := now.Add(c.window / slack); c.waits.len() > 0 && !c.waits.all()[0].at.After(horizon); {
		key := c.waits.pop().key
		key.refs--
		if key.waiting != nil && !key.waiting.queued && !key.due.After(horizon) {
			c.release(key, now)
		} else {
			c.drop(key, now)
		}
	}
	for c.quiets.len() > 0 && !c.quiets.all()[0].at.After(now) {
		key := c.quiets.pop().key
		key.refs--
		key.quieted = false
		if key.quiet.After(now) {
			key.quieted = true
			key.refs++
			c.quiets.push(timer{key.quiet, key})
			continue
		}
		c.drop(key, now)
	}
}

// flush makes everything ready, for the end of the input.
func (c *conflation) flush() {
	for _, timer := range c.waits.all() {
		if waiting := timer.key.waiting; waiting != nil && !waiting.queued {
			c.push(waiting)
		}
	}
	c.waits, c.quiets = fifo[timer]{}, fifo[timer]{}
}

// take takes the next batch to send off what is ready, or the next error.
func (c *conflation) take(now time.Time) (batch []streams.Event, err error) {
	if c.ready.len() == 0 {
		return nil, nil
	}
	if first := c.ready.all()[0]; first.kind == ofError {
		c.ready.pop()
		c.size--
		return nil, first.err
	}
	batch = streams.NewBatch[streams.Event](min(c.size, debounceBatch))
	for c.ready.len() > 0 && c.ready.all()[0].kind != ofError && len(batch) < debounceBatch {
		first := c.ready.all()[0]
		n := min(len(first.events)-first.out, debounceBatch-len(batch))
		part := first.events[first.out : first.out+n]
		batch = append(batch, part...)
		clear(part) // Not to keep alive what is out.
		first.out += n
		if first.out < len(first.events) {
			break
		}
		c.ready.pop()
		c.done(first, now)
	}
	c.size -= len(batch)
	return batch, nil
}

// done notes that an entry is out.
func (c *conflation) done(out *entry, now time.Time) {
	out.queued, out.out = false, 0
	key := out.key
	switch {
	case key == nil:
		out.events = nil
		return
	case out == &key.own:
		out.events = out.events[:0] // For use again.
	default:
		key.refs--
	}
	if key.waiting == out {
		c.close(key, now)
	} else {
		c.drop(key, now)
	}
}

// itemOf is what is sent for what take took.
func itemOf(out streams.Sink[streams.Event], batch []streams.Event, err error) rxgo.Item {
	if err != nil {
		return rxgo.Item{E: err}
	}
	return out.Item(batch)
}
