package operators

import (
	"slices"
	"time"

	"github.com/bellerophon-io/bellerophon/streams"
)

// debounceBatch bounds the events in a batch that Debounce sends.
const debounceBatch = 256

// conflation is the state of one observation of Debounce: the events that wait, and the events that
// are ready to go out. It has no channels and starts no timers.
//
// While the window of a key is open, later events of the key wait in one entry. At the end of the
// window the entry becomes ready.
type conflation struct {
	window  time.Duration
	burst   int                // states of a key that pass at once in a window that no event waited for
	origins map[string]*origin // by source
	last    *origin            // the origin of the last event: most events come in runs of one source
	windows fifo[windowEnd]    // ends of the open windows, in order: all windows are equally long
	delayed int                // keys with an event that waits for the end of its window
	ready   fifo[*entry]       // in the order in which they go out
	size    int                // events held
	spare   []*keyState        // for reuse
	passing passing
}

// origin is the state of one source. Two sources that see the same object are kept apart, so that a
// list or bookmark of one source never stands for the other.
type origin struct {
	source string
	keys   table[streams.Key, *keyState]
	list   *entry // the list that the source started last
}

// keyState is the state of a key whose window is open, or which has an event that is still to go
// out.
type keyState struct {
	origin   *origin
	key      streams.Key
	inWindow bool // its window is open; the end releases a waiting event, or makes the key quiet
	passes   int  // states that passed in the window; burst if no more may
	// waiting takes in further events of the key. It is nil once its events are out. It is also nil
	// when a list of the source follows, which later events must not overtake.
	waiting *entry
	own     entry // what waiting points to, most of the time
	refs    int   // references from windows, and from entries other than own
}

// windowEnd is when the window of a key ends.
type windowEnd struct {
	at  time.Time
	key *keyState
}

// entry holds what goes out together: the events of one key, a list, a mark or an error.
type entry struct {
	kind   entryKind
	origin *origin
	key    *keyState // for ofKey only
	events []streams.Event
	taken  int // how many of events have been taken to be sent
	err    error
	queued bool // in ready
}

// entryKind is what an entry holds.
type entryKind uint8

const (
	ofKey entryKind = iota
	ofList
	ofBookmark
	ofState // Connected or Disconnected
	ofSelection
	ofError
)

// newConflation creates a conflation that holds nothing.
func newConflation(window time.Duration, burst int) *conflation {
	return &conflation{window: window, burst: burst, origins: map[string]*origin{}}
}

// origin returns the state of a source, which it creates if the source is new.
func (c *conflation) origin(source string) *origin {
	if c.last != nil && c.last.source == source {
		return c.last
	}
	known := c.origins[source]
	if known == nil {
		known = &origin{source: source}
		c.origins[source] = known
	}
	c.last = known
	return known
}

// add takes in one event.
func (c *conflation) add(event *streams.Event, now time.Time) {
	event.Coalesced = slices.Clip(event.Coalesced) // Other events may share the array: see Event.Coalesce.
	c.size++
	from := c.origin(event.Source)
	switch event.Type {
	case streams.ListStart:
		c.sealAll(from, now)
		event.Reset = c.dropLists(from) || event.Reset
		from.list = &entry{kind: ofList, origin: from}
		c.addListed(from, event)
	case streams.Listed:
		c.addListed(from, event)
	case streams.ListEnd:
		c.addListed(from, event)
		c.dropStates(from, event.ResourceVersion)
	case streams.Bookmark:
		c.addMark(from, ofBookmark, event, now)
	case streams.Connected, streams.Disconnected:
		c.addMark(from, ofState, event, now)
	case streams.Selected:
		c.addMark(from, ofSelection, event, now)
	default:
		c.addKeyed(from, event, now)
	}
}

// addMark adds a mark, which is a bookmark or an event about the connection. It stands behind all
// earlier events of its source. A later mark of the same kind replaces it.
func (c *conflation) addMark(from *origin, kind entryKind, event *streams.Event, now time.Time) {
	// Later events may still be coalesced into the entries before the mark, since they may overtake
	// a mark. Otherwise a stalled receiver would make us hold every event.
	c.releaseAll(from, now)
	for i, held := range c.ready.all() {
		if held.kind == kind && held.origin == from {
			c.ready.remove(i)
			c.size--
			break
		}
	}
	c.push(&entry{kind: kind, origin: from, events: []streams.Event{*event}})
}

// addKeyed adds an event of a key.
func (c *conflation) addKeyed(from *origin, event *streams.Event, now time.Time) {
	key, mayPass := c.admit(from, event.Key)
	c.hold(key, event)
	if mayPass {
		c.release(key, now)
	}
}

// admit returns the state of a key, and whether an event of the key may pass at once. It creates
// the state if the key is new.
func (c *conflation) admit(from *origin, of streams.Key) (key *keyState, mayPass bool) {
	key = from.keys.get(of)
	if key == nil {
		key = c.newKey(from, of)
		from.keys.set(of, key)
	}
	return key, key.waiting == nil && (!key.inWindow || key.passes < c.burst && !key.own.queued)
}

// hold has an event wait. It is coalesced with the event that waits for the key, if there is one.
func (c *conflation) hold(key *keyState, event *streams.Event) {
	if key.waiting != nil {
		held := len(key.waiting.events)
		key.waiting.events = coalesce(key.waiting.events, event)
		c.size += len(key.waiting.events) - held - 1
		return
	}
	key.waiting = &key.own
	if key.own.queued { // It is sealed, and has not gone out yet.
		key.waiting = &entry{kind: ofKey, origin: key.origin, key: key}
		key.refs++
	}
	key.waiting.events = append(key.waiting.events, *event)
	c.delayed++
}

// newKey creates the state of a key, in the memory of a key that was dropped, if there is one.
func (c *conflation) newKey(from *origin, of streams.Key) *keyState {
	last := len(c.spare) - 1
	if last < 0 {
		made := &keyState{origin: from, key: of}
		made.own = entry{kind: ofKey, origin: from, key: made}
		return made
	}
	spare := c.spare[last]
	c.spare[last] = nil
	c.spare = c.spare[:last]
	// Everything else is as in a new state: see dropIfIdle. To write only what differs saves the write barriers of
	// the rest while the garbage collector runs.
	spare.origin, spare.own.origin = from, from
	spare.key, spare.passes = of, 0
	return spare
}

// coalesce appends an event to the events of its key, and drops the states of the same object that
// the event makes obsolete.
func coalesce(events []streams.Event, event *streams.Event) []streams.Event {
	if !coalesceInto(&events[len(events)-1], event) {
		return append(events, *event)
	}
	return events
}

// coalesceInto merges a later event of the same key into last. It returns false if both events must
// go out.
func coalesceInto(last, event *streams.Event) bool {
	if last.Type == streams.Deleted || last.Object.GetUID() != event.Object.GetUID() {
		return false
	}
	if event.Type == streams.Applied && streams.IsOlderVersion(event.ResourceVersion, last.ResourceVersion) {
		last.Coalesced = streams.JoinCauses(last.Coalesced, event.Causes())
		return true
	}
	last.Coalesce(event)
	return true
}

// addListed adds an event to the list that its source started last.
func (c *conflation) addListed(from *origin, event *streams.Event) {
	if from.list == nil {
		from.list = &entry{kind: ofList, origin: from}
	}
	from.list.events = append(from.list.events, *event)
	if !from.list.queued { // The list is new, or all of it has gone out except this event.
		c.push(from.list)
	}
}

// releaseAll makes all waiting events of a source ready, before the ends of their windows.
func (c *conflation) releaseAll(from *origin, now time.Time) {
	for _, window := range c.windows.all() { // Not over keys: the order must be the same in every run.
		if window.key.origin == from && window.key.waits() {
			c.release(window.key, now)
		}
	}
}

// sealAll releases all waiting events of a source, and seals its keys. It is called when a list
// follows, which later events must not overtake.
func (c *conflation) sealAll(from *origin, now time.Time) {
	c.releaseAll(from, now)
	for _, key := range from.keys.items {
		if key.waiting != nil {
			c.seal(key)
		}
	}
}

// dropLists drops the earlier list of a source, and the marks of the source, because a new list
// follows. It reports whether a list that is dropped was a Reset: then the new one is, too. The
// server's versions went back before both.
func (c *conflation) dropLists(from *origin) (reset bool) {
	c.ready.filter(func(entry *entry) bool {
		if entry.origin != from || entry.kind == ofError || entry.kind == ofKey {
			return true
		}
		for _, event := range entry.events[entry.taken:] {
			reset = reset || event.Reset
		}
		c.size -= len(entry.events) - entry.taken
		entry.queued = false
		return false
	})
	return reset
}

// dropStates drops the states of objects that came before a list of their source, unless they are
// newer than the list. Deletions stay: each is a change of its own.
func (c *conflation) dropStates(from *origin, listed string) {
	c.ready.filter(func(entry *entry) bool {
		if entry.origin != from || entry.kind != ofKey {
			return true
		}
		held := entry.events[entry.taken:]
		kept := slices.DeleteFunc(held, func(event streams.Event) bool {
			return event.Type != streams.Deleted && !streams.IsOlderVersion(listed, event.ResourceVersion)
		})
		c.size += len(kept) - len(held)
		entry.events = entry.events[:entry.taken+len(kept)]
		if len(kept) == 0 {
			c.finish(entry)
		}
		return entry.queued
	})
}

// addError adds an error, which keeps its place in the order.
func (c *conflation) addError(err error) {
	c.size++
	c.push(&entry{kind: ofError, err: err})
}

// push appends an entry to ready.
func (c *conflation) push(entry *entry) {
	entry.queued = true
	c.ready.push(entry)
}

// waits reports whether an event of the key waits for the end of the window.
func (k *keyState) waits() bool { return k.waiting != nil && !k.waiting.queued }

// release makes the waiting events of a key ready, which counts as a pass.
func (c *conflation) release(key *keyState, now time.Time) {
	c.delayed--
	c.push(key.waiting)
	c.recordPass(key, now)
}

// recordPass counts a state of a key that passes, and opens a window unless one is open. An open
// window is not extended: a state that passes early belongs to the burst, or a list or mark took it
// along.
func (c *conflation) recordPass(key *keyState, now time.Time) {
	key.passes++
	if c.window > 0 && !key.inWindow {
		key.inWindow, key.passes = true, 1
		key.refs++
		c.windows.push(windowEnd{now.Add(c.window), key})
	}
}

// seal ends the coalescing into the ready events of a key.
func (c *conflation) seal(key *keyState) {
	key.waiting = nil
	c.dropIfIdle(key)
}

// maxSpare bounds the keys that are kept for reuse.
const maxSpare = 4096

// maxSpareEvents bounds the number of events for which such a key keeps memory.
const maxSpareEvents = 2

// dropIfIdle drops a key if its window is closed and no event waits. It keeps the memory for newKey, if nothing refers
// to it.
func (c *conflation) dropIfIdle(key *keyState) {
	if key.waiting != nil || key.inWindow {
		return
	}
	if key.origin.keys.get(key.key) == key {
		key.origin.keys.delete(key.key)
	}
	if key.refs == 0 && !key.own.queued && len(c.spare) < maxSpare {
		if cap(key.own.events) > maxSpareEvents {
			key.own.events = nil
		}
		c.spare = append(c.spare, key)
	}
}
