package operators

import (
	"container/heap"
	"sync"
	"time"

	"github.com/bellerophon-io/bellerophon/streams"
)

// asks holds the changes for which rules have to be called again, because they panicked.
type asks struct {
	stats StageStats
	wake  chan struct{} // has a token when an ask may be due earlier than before

	mu      sync.Mutex
	enabled bool // Retries calls rules again; without it, nothing is kept
	backoff Backoff
	known   map[askKey]*ask
	due     askHeap // the asks in known, except those in a call
	failing int     // asks that failed FailingAfter times in a row or more
}

type askKey struct {
	rule   *Rule
	object streams.Key
}

// ask holds the changes of one object for which one rule has to be called again.
type ask struct {
	askKey
	changes  []streams.Change // oldest first
	failures int              // in a row
	due      time.Time
	position int  // in due; -1 during a call
	gone     bool // its rule was removed meanwhile
}

// maxAskChanges bounds the changes of one object that wait for one rule. Beyond it the oldest
// changes are coalesced, as a Debounce coalesces their events while its receiver is busy.
const maxAskChanges = 16

func newAsks() *asks {
	return &asks{wake: make(chan struct{}, 1), known: map[askKey]*ask{}}
}

// keep enables asks: changes are kept for rules that panic from now on.
func (a *asks) keep(backoff Backoff) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.enabled, a.backoff = true, backoff
}

// failed records that a rule panicked when Trigger called it for a change. A rule that is no longer
// current is not called again.
func (a *asks) failed(rule *Rule, change *streams.Change, current func(*Rule) bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.enabled || !current(rule) {
		return
	}
	key := askKey{rule, change.Key}
	if known := a.known[key]; known != nil {
		known.add(*change)
		return
	}
	added := &ask{askKey: key, changes: []streams.Change{*change}}
	a.known[key] = added
	a.stats.Waiting.Add(1)
	a.stats.In.Add(1)
	a.delay(added, time.Now())
	a.notify()
}

func (a *asks) notify() {
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

// delay makes an ask wait for its backoff after a failure.
func (a *asks) delay(failed *ask, now time.Time) {
	if failed.failures++; failed.failures == FailingAfter {
		a.failing++
		a.stats.Waiting.Add(-1)
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

// take returns an ask that is due, and its changes. The caller has to give back every ask that it
// takes.
func (a *asks) take(now time.Time) (*ask, []streams.Change) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.due) == 0 || a.due[0].due.After(now) {
		return nil, nil
	}
	a.stats.Running.Add(1)
	taken := heap.Pop(&a.due).(*ask)
	changes := taken.changes
	taken.changes = nil // Changes that come meanwhile are kept apart.
	return taken, changes
}

// giveBack returns an ask, with the changes for which the rule has failed again.
func (a *asks) giveBack(taken *ask, failed []streams.Change, now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	defer a.stats.Running.Add(-1) // Last: see StageStats.
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
	if len(failed) == 0 { // As far as is known, each change that came meanwhile has failed once.
		a.forget(taken)
		taken.failures = 0
		a.stats.Waiting.Add(1)
	}
	a.delay(taken, now)
}

// forget removes an ask from the counts.
func (a *asks) forget(gone *ask) {
	if gone.failures >= FailingAfter {
		a.failing--
	} else {
		a.stats.Waiting.Add(-1)
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

// add appends a change of the object. Beyond maxAskChanges it coalesces the two oldest changes.
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

// askHeap is a heap of asks, the one that is due next first.
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
