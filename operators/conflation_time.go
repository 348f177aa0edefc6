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
	if c.hot.len() == 0 {
		return time.Time{}, false
	}
	next := c.hot.all()[0].at
	if c.holding == 0 { // There is no hurry: cool drops cold keys when events come.
		next = next.Add(c.window)
	}
	return next, true
}

// tick lets go what has waited for the end of a window, and forgets keys that are cold.
func (c *conflation) tick(now time.Time) {
	for horizon := now.Add(c.window / slack); c.hot.len() > 0 && !c.hot.all()[0].at.After(horizon); {
		if key := c.expire(); key.waits() {
			c.release(key, now)
			key.passes = c.burst // It is busy.
		}
	}
}

// cool forgets keys that are cold, up to the first that tick has something to do for.
func (c *conflation) cool(now time.Time) {
	for c.hot.len() > 0 && !c.hot.all()[0].at.After(now) && !c.hot.all()[0].key.waits() {
		c.expire()
	}
}

// expire takes the first timer, and returns its key, which is hot no more.
func (c *conflation) expire() *hotKey {
	key := c.hot.pop().key
	key.refs--
	key.hot = false
	c.drop(key)
	return key
}

// flush makes everything ready, for the end of the input.
func (c *conflation) flush() {
	for _, timer := range c.hot.all() {
		if timer.key.waits() {
			c.push(timer.key.waiting)
		}
	}
	c.hot, c.holding = fifo[timer]{}, 0
}

// take takes the next batch to send off what is ready, or the next error.
func (c *conflation) take() (batch []streams.Event, err error) {
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
		c.done(first)
	}
	c.size -= len(batch)
	return batch, nil
}

// done notes that an entry is out.
func (c *conflation) done(out *entry) {
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
		c.close(key)
	} else {
		c.drop(key)
	}
}

// itemOf is what is sent for what take took.
func itemOf(out streams.Sink[streams.Event], batch []streams.Event, err error) rxgo.Item {
	if err != nil {
		return rxgo.Item{E: err}
	}
	return out.Item(batch)
}
