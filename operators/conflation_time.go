package operators

import (
	"time"

	"github.com/bellerophon-io/bellerophon/streams"
	"github.com/reactivex/rxgo/v2"
)

// slack is the part of the window, as 1/slack, by which an event may go out early together with
// others. Without it, each of many busy keys would cost a timer.
const slack = 16

// due returns when tick has something to do.
func (c *conflation) due() (time.Time, bool) {
	if c.windows.len() == 0 {
		return time.Time{}, false
	}
	next := c.windows.all()[0].at
	if c.delayed == 0 { // Nothing waits, and closeQuietWindows runs when events come.
		next = next.Add(c.window)
	}
	return next, true
}

// tick releases the events whose windows have ended, and drops the keys that are quiet.
func (c *conflation) tick(now time.Time) {
	for horizon := now.Add(c.window / slack); c.windows.len() > 0 && !c.windows.all()[0].at.After(horizon); {
		if key := c.popWindow(); key.waits() {
			c.release(key, now)
			key.passes = c.burst // A busy key has no burst.
		}
	}
}

// closeQuietWindows drops the keys whose windows have ended, up to the first key with an event that
// waits, which is left to tick.
func (c *conflation) closeQuietWindows(now time.Time) {
	for c.windows.len() > 0 && !c.windows.all()[0].at.After(now) && !c.windows.all()[0].key.waits() {
		c.popWindow()
	}
}

// popWindow closes the window that ends first, and returns its key.
func (c *conflation) popWindow() *keyState {
	key := c.windows.pop().key
	key.refs--
	key.inWindow = false
	c.dropIfIdle(key)
	return key
}

// flush makes everything ready, at the end of the input.
func (c *conflation) flush() {
	for _, window := range c.windows.all() {
		if window.key.waits() {
			c.push(window.key.waiting)
		}
	}
	c.windows, c.delayed = fifo[windowEnd]{}, 0
}

// take returns the next batch of what is ready, or the next error.
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
		n := min(len(first.events)-first.taken, debounceBatch-len(batch))
		part := first.events[first.taken : first.taken+n]
		batch = append(batch, part...)
		clear(part) // Otherwise the slice would keep the objects alive.
		first.taken += n
		if first.taken < len(first.events) {
			break
		}
		c.ready.pop()
		c.finish(first)
	}
	c.size -= len(batch)
	return batch, nil
}

// finish resets an entry that has no events left, and drops its key if the key is idle.
func (c *conflation) finish(out *entry) {
	out.queued, out.taken = false, 0
	key := out.key
	switch {
	case key == nil:
		out.events = nil
		return
	case out == &key.own:
		out.events = out.events[:0] // Its memory is reused.
	default:
		key.refs--
	}
	if key.waiting == out {
		c.seal(key)
	} else {
		c.dropIfIdle(key)
	}
}

// itemOf returns the item that sends a batch or an error.
func itemOf(out streams.Sink[streams.Event], batch []streams.Event, err error) rxgo.Item {
	if err != nil {
		return rxgo.Item{E: err}
	}
	return out.Item(batch)
}
