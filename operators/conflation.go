package operators

import (
	"time"

	"github.com/bellerophon-io/bellerophon/streams"
	"github.com/reactivex/rxgo/v2"
)

// debounceBatch bounds a batch that Debounce sends.
const debounceBatch = 256

// conflation is the state of one observation of Debounce: which events wait, and which
// are ready to go. It knows no channels and starts no timers.
type conflation struct {
	window time.Duration
	keys   map[said]*hotKey
	timers []timer           // by time: all windows are equally long
	ready  []*entry          // in the order in which they go out
	lists  map[string]*entry // by source: the list that it started last
	size   int               // events held
}

// said is what one source says of one key. Two sources that see the same object are told
// apart, so that no bookmark or list of one speaks for the other.
type said struct {
	source string
	key    streams.Key
}

// hotKey is a key that had an event less than a window ago, or has one that waits.
type hotKey struct {
	said
	quiet time.Time // without a further event, the key is cold from then on
	due   time.Time // when waiting goes out, while it is not in ready
	// waiting takes in further events of the key. It is nil once its events are out, and
	// when a list of its source follows, which they must not overtake.
	waiting *entry
}

type timer struct {
	at  time.Time
	key *hotKey
}

// entry is what waits together: the events of one key, a list, a bookmark, an error.
type entry struct {
	kind   entryKind
	source string
	key    *hotKey // of ofKey
	events []streams.Event
	err    error
	queued bool // in ready
}

type entryKind uint8

const (
	ofKey entryKind = iota
	ofList
	ofBookmark
	ofError
)

func newConflation(window time.Duration) *conflation {
	return &conflation{window: window, keys: map[said]*hotKey{}, lists: map[string]*entry{}}
}

// add takes in an event.
func (c *conflation) add(event streams.Event, now time.Time) {
	c.size++
	switch event.Type {
	case streams.ListStart:
		c.seal(event.Source, now)
		c.forget(event.Source)
		c.lists[event.Source] = &entry{kind: ofList, source: event.Source}
		c.addListed(event)
	case streams.Listed, streams.ListEnd:
		c.addListed(event)
	case streams.Bookmark:
		// Later events may still be folded into what goes before it: they may overtake a
		// bookmark, and without that a stalled receiver would have us keep them all.
		c.hurry(event.Source, now)
		c.dropBookmark(event.Source)
		c.push(&entry{kind: ofBookmark, source: event.Source, events: []streams.Event{event}})
	default:
		c.addKeyed(event, now)
	}
}

func (c *conflation) addKeyed(event streams.Event, now time.Time) {
	from := said{event.Source, event.Key}
	key := c.keys[from]
	if key != nil && key.waiting != nil {
		held := len(key.waiting.events)
		key.waiting.events = fold(key.waiting.events, event)
		c.size += len(key.waiting.events) - held - 1
		return
	}
	waiting := &entry{source: event.Source, events: []streams.Event{event}}
	if key == nil {
		key = &hotKey{said: from, waiting: waiting}
		waiting.key = key
		c.keys[from] = key
		c.release(key, now)
		return
	}
	key.waiting, waiting.key = waiting, key
	key.due = now.Add(c.window)
	c.timers = append(c.timers, timer{key.due, key})
}

// fold appends an event to the events of its key, and drops the states of the same
// object that it makes obsolete.
func fold(events []streams.Event, event streams.Event) []streams.Event {
	last := &events[len(events)-1]
	if last.Type == streams.Deleted || last.Object.GetUID() != event.Object.GetUID() {
		return append(events, event)
	}
	if event.Type == streams.Applied && streams.Older(event.ResourceVersion, last.ResourceVersion) {
		last.Folded = streams.JoinCauses(last.Folded, event.Causes())
		return events
	}
	event.Folded = streams.JoinCauses(last.Causes(), event.Folded)
	event.Received = last.Received
	*last = event
	return events
}

// addListed adds to the list that its source started last.
func (c *conflation) addListed(event streams.Event) {
	list := c.lists[event.Source]
	if list == nil {
		list = &entry{kind: ofList, source: event.Source}
		c.lists[event.Source] = list
	}
	list.events = append(list.events, event)
	if !list.queued { // It is new, or all of it is out but what comes now.
		c.push(list)
	}
}

// hurry makes everything of a source ready that waits.
func (c *conflation) hurry(source string, now time.Time) {
	for _, timer := range c.timers { // In this order, to be the same in every run.
		if key := timer.key; key.source == source && key.waiting != nil && !key.waiting.queued {
			c.release(key, now)
		}
	}
}

// seal does so too, and lets nothing be folded into it any more, because something
// follows that must not be overtaken.
func (c *conflation) seal(source string, now time.Time) {
	c.hurry(source, now)
	for _, key := range c.keys {
		if key.source == source && key.waiting != nil {
			c.close(key, now)
		}
	}
}

// forget drops what a source said before, except deletions.
func (c *conflation) forget(source string) {
	kept := c.ready[:0]
	for _, entry := range c.ready {
		if entry.source == source && entry.kind != ofError {
			held := len(entry.events)
			entry.events = deletions(entry.events)
			c.size += len(entry.events) - held
			if len(entry.events) == 0 {
				continue
			}
		}
		kept = append(kept, entry)
	}
	clear(c.ready[len(kept):])
	c.ready = kept
}

func deletions(events []streams.Event) []streams.Event {
	kept := events[:0]
	for _, event := range events {
		if event.Type == streams.Deleted {
			kept = append(kept, event)
		}
	}
	return kept
}

// dropBookmark drops a bookmark of a source that is not out: a later one follows.
func (c *conflation) dropBookmark(source string) {
	for i, entry := range c.ready {
		if entry.kind == ofBookmark && entry.source == source {
			c.ready = append(c.ready[:i], c.ready[i+1:]...)
			c.size--
			return
		}
	}
}

func (c *conflation) addError(err error) {
	c.size++
	c.push(&entry{kind: ofError, err: err})
}

func (c *conflation) push(entry *entry) {
	entry.queued = true
	c.ready = append(c.ready, entry)
}

// release makes what waits for a key ready, and the key hot from now on.
func (c *conflation) release(key *hotKey, now time.Time) {
	c.push(key.waiting)
	key.quiet = now.Add(c.window)
	if c.window > 0 {
		c.timers = append(c.timers, timer{key.quiet, key})
	}
}

// close lets nothing more be folded into what is ready of a key.
func (c *conflation) close(key *hotKey, now time.Time) {
	key.waiting = nil
	if !key.quiet.After(now) {
		delete(c.keys, key.said)
	}
}

// due is when tick has something to do.
func (c *conflation) due() (time.Time, bool) {
	if len(c.timers) == 0 {
		return time.Time{}, false
	}
	return c.timers[0].at, true
}

// tick lets go what has waited for its window, and forgets keys that have been quiet.
func (c *conflation) tick(now time.Time) {
	for len(c.timers) > 0 && !c.timers[0].at.After(now) {
		key := c.timers[0].key
		c.timers[0] = timer{}
		c.timers = c.timers[1:]
		switch {
		case key.waiting != nil && !key.waiting.queued && !key.due.After(now):
			c.release(key, now)
		case key.waiting == nil && !key.quiet.After(now) && c.keys[key.said] == key:
			delete(c.keys, key.said)
		}
	}
}

// flush makes everything ready, for the end of the input.
func (c *conflation) flush() {
	for _, timer := range c.timers {
		if waiting := timer.key.waiting; waiting != nil && !waiting.queued {
			c.push(waiting)
		}
	}
	c.timers = nil
}

// take takes the next item to send off what is ready.
func (c *conflation) take(now time.Time) (rxgo.Item, bool) {
	if len(c.ready) == 0 {
		return rxgo.Item{}, false
	}
	if first := c.ready[0]; first.kind == ofError {
		c.pop()
		c.size--
		return rxgo.Item{E: first.err}, true
	}
	batch := make([]streams.Event, 0, min(c.size, debounceBatch))
	for len(c.ready) > 0 && c.ready[0].kind != ofError && len(batch) < debounceBatch {
		first := c.ready[0]
		n := min(len(first.events), debounceBatch-len(batch))
		batch = append(batch, first.events[:n]...)
		first.events = first.events[n:]
		if len(first.events) > 0 {
			break
		}
		c.pop()
		if key := first.key; key != nil && key.waiting == first {
			c.close(key, now)
		}
	}
	c.size -= len(batch)
	return rxgo.Item{V: batch}, true
}

func (c *conflation) pop() {
	first := c.ready[0]
	first.queued = false
	c.ready[0] = nil
	c.ready = c.ready[1:]
	if first.kind == ofList {
		first.events = nil // Not to keep alive what is out.
	}
}
