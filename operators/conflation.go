package operators

import (
	"slices"
	"time"

	"github.com/bellerophon-io/bellerophon/streams"
)

// debounceBatch bounds a batch that Debounce sends.
const debounceBatch = 256

// conflation is the state of one observation of Debounce: which events wait, and which
// are ready to go. It knows no channels and starts no timers.
type conflation struct {
	window  time.Duration
	burst   int                // states of a key that pass at once in a window that nothing waited for
	origins map[string]*origin // by source
	last    *origin            // the one of the last event: most come in runs
	hot     fifo[timer]        // hot keys, by when that ends: all windows are equally long
	holding int                // of them, those with an event that waits for that
	ready   fifo[*entry]       // in the order in which they go out
	size    int                // events held
	spare   []*hotKey
	passing passing
}

// origin is what is known of one source. Two sources that see the same object are told
// apart, so that no bookmark or list of one speaks for the other.
type origin struct {
	source string
	keys   table[streams.Key, *hotKey]
	list   *entry // the list that it started last
}

// hotKey is a key of which an event went on less than a window ago, or of which one is
// still to go out.
type hotKey struct {
	origin *origin
	key    streams.Key
	hot    bool // it has a timer, which lets go what waits, or else makes the key cold
	passes int  // how many states went on since it is hot, or as many as may
	// waiting takes in further events of the key. It is nil once its events are out, and
	// when a list of its source follows, which they must not overtake.
	waiting *entry
	own     entry // what waiting is, most of the time
	refs    int   // from its timer, and from entries that are not own
}

type timer struct {
	at  time.Time
	key *hotKey
}

// entry is what waits together: the events of one key, a list, a bookmark, an error.
type entry struct {
	kind   entryKind
	origin *origin
	key    *hotKey // of ofKey
	events []streams.Event
	out    int // of events, how many are out
	err    error
	queued bool // in ready
}

type entryKind uint8

const (
	ofKey entryKind = iota
	ofList
	ofBookmark
	ofState // the source is connected, or disconnected
	ofError
)

func newConflation(window time.Duration, burst int) *conflation {
	return &conflation{window: window, burst: burst, origins: map[string]*origin{}}
}

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

// add takes in an event.
func (c *conflation) add(event *streams.Event, now time.Time) {
	event.Coalesced = slices.Clip(event.Coalesced) // Others may have it too; see Event.Fold.
	c.size++
	from := c.origin(event.Source)
	switch event.Type {
	case streams.ListStart:
		c.seal(from, now)
		c.forgetLists(from)
		from.list = &entry{kind: ofList, origin: from}
		c.addListed(from, event)
	case streams.Listed:
		c.addListed(from, event)
	case streams.ListEnd:
		c.addListed(from, event)
		c.forgetStates(from, event.ResourceVersion)
	case streams.Bookmark:
		c.addMark(from, ofBookmark, event, now)
	case streams.Connected, streams.Disconnected:
		c.addMark(from, ofState, event, now)
	default:
		c.addKeyed(from, event, now)
	}
}

// addMark adds what speaks for all that its source said before. A later one of the same
// kind replaces it.
func (c *conflation) addMark(from *origin, kind entryKind, event *streams.Event, now time.Time) {
	// Later events may still be folded into what goes before it: they may overtake a mark,
	// and without that a stalled receiver would have us keep them all.
	c.hurry(from, now)
	for i, held := range c.ready.all() {
		if held.kind == kind && held.origin == from {
			c.ready.remove(i)
			c.size--
			break
		}
	}
	c.push(&entry{kind: kind, origin: from, events: []streams.Event{*event}})
}

func (c *conflation) addKeyed(from *origin, event *streams.Event, now time.Time) {
	key := from.keys.get(event.Key)
	if key != nil && key.waiting != nil {
		held := len(key.waiting.events)
		key.waiting.events = fold(key.waiting.events, event)
		c.size += len(key.waiting.events) - held - 1
		return
	}
	if key == nil {
		key = c.newKey(from, event.Key)
		from.keys.set(event.Key, key)
	}
	mayPass := c.mayPass(key)
	key.waiting = &key.own
	if key.own.queued { // It is sealed, and still to go out.
		key.waiting = &entry{kind: ofKey, origin: from, key: key}
		key.refs++
	}
	key.waiting.events = append(key.waiting.events, *event)
	c.holding++
	if mayPass {
		c.release(key, now)
	}
}

// mayPass says whether an event of a key, of which none waits, may go on at once.
func (c *conflation) mayPass(key *hotKey) bool {
	return !key.hot || key.passes < c.burst && !key.own.queued
}

// newKey makes the state of a key, or takes what is left of one that is cold.
func (c *conflation) newKey(from *origin, of streams.Key) *hotKey {
	last := len(c.spare) - 1
	if last < 0 {
		made := &hotKey{origin: from, key: of}
		made.own = entry{kind: ofKey, origin: from, key: made}
		return made
	}
	spare := c.spare[last]
	c.spare[last] = nil
	c.spare = c.spare[:last]
	events := spare.own.events[:0]
	*spare = hotKey{origin: from, key: of}
	spare.own = entry{kind: ofKey, origin: from, key: spare, events: events}
	return spare
}

// fold appends an event to the events of its key, and drops the states of the same
// object that it makes obsolete.
func fold(events []streams.Event, event *streams.Event) []streams.Event {
	if !foldInto(&events[len(events)-1], event) {
		return append(events, *event)
	}
	return events
}

// foldInto makes of an event what it and a later one of its key come to. It is false if
// both must go on.
func foldInto(last, event *streams.Event) bool {
	if last.Type == streams.Deleted || last.Object.GetUID() != event.Object.GetUID() {
		return false
	}
	if event.Type == streams.Applied && streams.OlderVersion(event.ResourceVersion, last.ResourceVersion) {
		last.Coalesced = streams.JoinCauses(last.Coalesced, event.Causes())
		return true
	}
	last.Coalesce(event)
	return true
}

// addListed adds to the list that its source started last.
func (c *conflation) addListed(from *origin, event *streams.Event) {
	if from.list == nil {
		from.list = &entry{kind: ofList, origin: from}
	}
	from.list.events = append(from.list.events, *event)
	if !from.list.queued { // It is new, or all of it is out but what comes now.
		c.push(from.list)
	}
}

// hurry makes everything of a source ready that waits.
func (c *conflation) hurry(from *origin, now time.Time) {
	for _, timer := range c.hot.all() { // In this order, to be the same in every run.
		if timer.key.origin == from && timer.key.waits() {
			c.release(timer.key, now)
		}
	}
}

// seal does so too, and lets nothing be folded into it any more, because something
// follows that must not be overtaken.
func (c *conflation) seal(from *origin, now time.Time) {
	c.hurry(from, now)
	for _, key := range from.keys.items {
		if key.waiting != nil {
			c.close(key)
		}
	}
}

// forgetLists drops the list that a source has given up, and its marks, because a list
// follows.
func (c *conflation) forgetLists(from *origin) {
	c.ready.filter(func(entry *entry) bool {
		if entry.origin != from || entry.kind == ofError || entry.kind == ofKey {
			return true
		}
		c.size -= len(entry.events) - entry.out
		entry.queued = false
		return false
	})
}

// forgetStates drops the states of objects that a source told of before its list, and that
// the list is as new as. Deletions stay: each is a change of its own.
func (c *conflation) forgetStates(from *origin, listed string) {
	c.ready.filter(func(entry *entry) bool {
		if entry.origin != from || entry.kind != ofKey {
			return true
		}
		held := entry.events[entry.out:]
		kept := slices.DeleteFunc(held, func(event streams.Event) bool {
			return event.Type != streams.Deleted && !streams.OlderVersion(listed, event.ResourceVersion)
		})
		c.size += len(kept) - len(held)
		entry.events = entry.events[:entry.out+len(kept)]
		if len(kept) == 0 {
			c.done(entry)
		}
		return entry.queued
	})
}

func (c *conflation) addError(err error) {
	c.size++
	c.push(&entry{kind: ofError, err: err})
}

func (c *conflation) push(entry *entry) {
	entry.queued = true
	c.ready.push(entry)
}

// waits says whether the key has an event that waits for the end of its window.
func (k *hotKey) waits() bool { return k.waiting != nil && !k.waiting.queued }

// release makes what waits for a key ready, and the key hot from now on.
func (c *conflation) release(key *hotKey, now time.Time) {
	c.holding--
	c.push(key.waiting)
	c.heat(key, now)
}

// heat makes a key hot from now on. One that is hot stays so for no longer than it was: what
// went out early was taken along by something else.
func (c *conflation) heat(key *hotKey, now time.Time) {
	key.passes++
	if c.window > 0 && !key.hot {
		key.hot, key.passes = true, 1
		key.refs++
		c.hot.push(timer{now.Add(c.window), key})
	}
}

// close lets nothing more be folded into what is ready of a key.
func (c *conflation) close(key *hotKey) {
	key.waiting = nil
	c.drop(key)
}

// maxSpare bounds the keys that are kept for use by others.
const maxSpare = 4096

// maxSpareEvents bounds the events for which such a key has room.
const maxSpareEvents = 2

// drop forgets a key, if it is cold and nothing of it waits.
func (c *conflation) drop(key *hotKey) {
	if key.waiting != nil || key.hot {
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
