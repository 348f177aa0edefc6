package operators

import (
	"container/heap"
	"sync"
	"time"

	"github.com/bellerophon-io/bellerophon/streams"
)

// asks is the changes that rules have to be asked about again, because they panicked.
type asks struct {
	flow StageStats
	news chan struct{} // has a token when an ask may be due earlier than was known

	mu      sync.Mutex
	kept    bool // Retries asks again; without it, nothing is kept
	backoff Backoff
	known   map[askKey]*ask
	due     askHeap // of known, those that are not being asked
	failing int     // those that failed FailingAfter times in a row or more
}

type askKey struct {
	rule   *Rule
	object streams.Key
}

// ask is what one rule has to be asked about one object.
type ask struct {
	askKey
	changes  []streams.Change // oldest first
	failures int              // in a row
	due      time.Time
	position int  // in due; -1 while it is being asked
	gone     bool // its rule was removed meanwhile
}

// maxAskChanges bounds the changes of one object that wait for one rule. Beyond it, the oldest
// are folded, as the events would have been by a Debounce whose receiver is busy.
const maxAskChanges = 16

func newAsks() *asks {
	return &asks{news: make(chan struct{}, 1), known: map[askKey]*ask{}}
}

// keep has what fails from now on be kept.
func (a *asks) keep(backoff Backoff) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.kept, a.backoff = true, backoff
}

// failed notes that a rule panicked when Trigger asked it about a change. A rule that is no
// longer current is not asked again.
func (a *asks) failed(rule *Rule, change *streams.Change, current func(*Rule) bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.kept || !current(rule) {
		return
	}
	key := askKey{rule, change.Key}
	if known := a.known[key]; known != nil {
		known.add(*change)
		return
	}
	added := &ask{askKey: key, changes: []streams.Change{*change}}
	a.known[key] = added
	a.flow.Waiting.Add(1)
	a.flow.In.Add(1)
	a.delay(added, time.Now())
	a.notify()
}

func (a *asks) notify() {
	select {
	case a.news <- struct{}{}:
	default:
	}
}

// delay has an ask wait after a failure.
func (a *asks) delay(failed *ask, now time.Time) {
	if failed.failures++; failed.failures == FailingAfter {
		a.failing++
		a.flow.Waiting.Add(-1)
	}
	failed.due = now.Add(a.backoff.delay(failed.failures))
	heap.Push(&a.due, failed)
}

// next returns when the next ask is due.
func (a *asks) next() (due time.Time, found bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.due) == 0 {
		return time.Time{}, false
	}
	return a.due[0].due, true
}

// take takes an ask that is due, and what it is about. Every ask that is taken is given back.
func (a *asks) take(now time.Time) (*ask, []streams.Change) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.due) == 0 || a.due[0].due.After(now) {
		return nil, nil
	}
	a.flow.Running.Add(1)
	taken := heap.Pop(&a.due).(*ask)
	changes := taken.changes
	taken.changes = nil // What comes meanwhile is kept apart.
	return taken, changes
}

// giveBack notes which changes an ask still has no answer for.
func (a *asks) giveBack(taken *ask, failed []streams.Change, now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	defer a.flow.Running.Add(-1) // Last: see Flow.
	if taken.gone {
		return
	}
	later := taken.changes
	taken.changes = failed
	for _, change := range later {
		taken.add(change)
	}
	if len(taken.changes) == 0 {
		delete(a.known, taken.askKey)
		a.forget(taken)
		return
	}
	if len(failed) == 0 { // What came meanwhile failed once each, as far as is known.
		a.forget(taken)
		taken.failures = 0
		a.flow.Waiting.Add(1)
	}
	a.delay(taken, now)
}

// forget counts an ask no more.
func (a *asks) forget(gone *ask) {
	if gone.failures >= FailingAfter {
		a.failing--
	} else {
		a.flow.Waiting.Add(-1)
	}
}

// remove drops the asks of a controller's rules.
func (a *asks) remove(controller string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for key, known := range a.known {
		if key.rule.Controller != controller {
			continue
		}
		if known.gone = true; known.position >= 0 {
			heap.Remove(&a.due, known.position)
		}
		delete(a.known, key)
		a.forget(known)
	}
}

// add appends a change of the object.
func (k *ask) add(change streams.Change) {
	if k.changes = append(k.changes, change); len(k.changes) <= maxAskChanges {
		return
	}
	first, second := k.changes[0], k.changes[1]
	folded := streams.Change{
		Type: streams.Updated, Key: first.Key, Old: first.Old, New: second.New,
		Causes: streams.JoinCauses(first.Causes, second.Causes), Received: first.Received,
	}
	switch {
	case folded.Old == nil && folded.New == nil:
		folded.Type = streams.Unchanged
	case folded.Old == nil:
		folded.Type = streams.Added
	case folded.New == nil:
		folded.Type = streams.Removed
	}
	k.changes = append([]streams.Change{folded}, k.changes[2:]...)
}

// askHeap is a heap of asks, the next due first.
type askHeap []*ask

func (h askHeap) Len() int           { return len(h) }
func (h askHeap) Less(i, j int) bool { return h[i].due.Before(h[j].due) }
func (h askHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].position, h[j].position = i, j
}
func (h *askHeap) Push(next any) {
	next.(*ask).position = len(*h)
	*h = append(*h, next.(*ask))
}
func (h *askHeap) Pop() any {
	last := len(*h) - 1
	next := (*h)[last]
	next.position = -1
	(*h)[last] = nil
	*h = (*h)[:last]
	return next
}
