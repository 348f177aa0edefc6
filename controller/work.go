package controller

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/bellerophon-io/bellerophon/cache"
	"github.com/bellerophon-io/bellerophon/operators"
	"github.com/bellerophon-io/bellerophon/sources"
	"github.com/bellerophon-io/bellerophon/streams"
)

// intake counts what the stage that receives requests has taken apart but not taken in. It
// belongs to the goroutine that receives: see operators.ReconcileOptions.Received.
type intake struct {
	events, joined, retried int64
	taken, retries          atomic.Int64 // events, and requests of rules that were asked again, that were taken in; for all goroutines
}

// received notes that all that was taken apart was taken in.
func (m *Manager) received() {
	m.intake.taken.Add(m.intake.events)
	m.joining.Add(-m.intake.joined)
	m.intake.retries.Add(m.intake.retried)
	m.intake.events, m.intake.joined, m.intake.retried = 0, 0, 0
	m.cache.Reconsider() // What repeats itself ends no calm, but nothing was calm while it was looked at.
}

// retried is what rules ask for that panicked before.
func (m *Manager) retried() streams.Stream[operators.Request] {
	again := operators.Retries(m.rules, m.options.Backoff)
	return streams.MapBatches(again, func(requests []operators.Request) ([]operators.Request, error) {
		m.intake.retried += int64(len(requests))
		return requests, nil
	})
}

// work is the pipeline of a manager as the cache sees it.
type work struct{ manager *Manager }

// Busy implements cache.Work.
func (w *work) Busy() bool { return w.manager.busy() }

// Stirred implements cache.Work.
func (w *work) Stirred() { w.manager.wake() }

// Unfinished implements cache.Work.
func (w *work) Unfinished() bool {
	objects, _ := w.manager.rules.Unanswered()
	return objects > 0 || w.manager.unfinished.Count().Keys > 0
}

// busy reports whether any stage holds anything.
func (m *Manager) busy() bool {
	return m.eachHeld(func(string, string, int64) bool { return false })
}

// eachHeld calls visit with what each stage of the pipeline holds, and for which kind or
// controller, if it holds something, until visit returns false. It reports whether any holds
// something.
//
// Stages are asked in the order in which things pass them, and each counts what it gets before
// the one before it stops counting: what was inside when the first one was asked is found.
func (m *Manager) eachHeld(visit func(stage, of string, held int64) bool) (found bool) {
	present := m.present.Load()
	goOn := true
	ask := func(stage, of string, held int64) {
		if goOn && held > 0 {
			found, goOn = true, visit(stage, of, held)
		}
	}
	for _, member := range present.members {
		if member.joins.Load() && !member.isBlocked() {
			ask("joining", member.name, 1)
		}
	}
	for _, watched := range present.watches {
		store := watched.store()
		if store == nil {
			continue
		}
		status := watched.options.Status
		if sources.WatchState(status.State.Load()) == sources.Listing && store.Counts() {
			ask("list", watched.kind.Kind, 1)
		}
		ask("watch", watched.kind.Kind, int64(status.Held()))
	}
	if m.debounce.Busy() {
		ask("debounce", "", max(1, m.debounce.Waiting.Load()))
	}
	ask("trigger", "", apart(m.debounce.Out.Load(), m.intake.taken.Load()))
	again := m.rules.Stats()
	ask("map functions that failed", "", again.Waiting.Load()+again.Running.Load())
	ask("map functions that were asked again", "", apart(again.Out.Load(), m.intake.retries.Load()))
	ask("requests of controllers that join", "", m.joining.Load())
	for name, member := range present.members {
		switch flow := member.controller.Stats; {
		case member.isBlocked(): // What waits at its gate may do so for ever.
			ask("attempts", name, flow.Running.Load())
		case flow.Busy(): // Exact, also for what goes from one of the two to the other.
			ask("queue and attempts", name, max(1, flow.Waiting.Load()+flow.Running.Load()))
		}
	}
	ask("results", "", apart(m.reconcile.Out.Load(), m.told.Load()))
	return found
}

// apart returns how far two counts are apart. What is received may be counted before its
// sender has counted it.
func apart(sent, received int64) int64 { return max(sent-received, received-sent) }

// isBlocked reports whether the controller waits for a kind that the server does not serve, or
// forbids.
func (m *member) isBlocked() bool {
	return slices.ContainsFunc(m.watches, func(needed *watched) bool { return needed.refused.Load() })
}

// recount says which kinds do not count: those that the server refuses, unless no controller can
// work without them. A manager that can do nothing must not look well.
func (m *Manager) recount() {
	m.counting.Lock()
	defer m.counting.Unlock()
	present := m.present.Load()
	works := false
	for _, member := range present.members {
		works = works || !member.isBlocked()
	}
	for _, watched := range present.watches {
		if store := watched.store(); store != nil {
			store.SetRefused(works && watched.refused.Load())
		}
	}
}

// namedKeys bounds the keys that are named for people.
const namedKeys = 10

// Pending implements cache.Work.
func (w *work) Pending(level cache.Level) (pending []string) {
	if level >= cache.Settled {
		w.manager.eachHeld(func(stage, of string, held int64) bool {
			pending = append(pending, fmt.Sprintf("%s (%d)", strings.TrimSpace(stage+" "+of), held))
			return true
		})
	}
	if level >= cache.Converged {
		pending = append(pending, w.failing()...)
		if count := w.manager.unfinished.Count(); count.Keys > count.Failing+count.Terminal {
			pending = append(pending, fmt.Sprintf("keys that are due again (%d)", count.Keys-count.Failing-count.Terminal))
		}
		if _, failing := w.manager.rules.Unanswered(); failing > 0 {
			pending = append(pending, fmt.Sprintf("objects for which a map function fails (%d)", failing))
		}
	}
	return pending
}

// failing returns the keys that fail, for people.
func (w *work) failing() (keys []string) {
	for _, key := range w.manager.unfinished.Failing(namedKeys) {
		keys = append(keys, fmt.Sprintf("%s %s (failed %d times: %v)", key.Controller, key.NamespacedName, key.Failures, key.Err))
	}
	return keys
}

// notes returns what is not part of the level, for people: kinds that do not count, the
// controllers that wait for them, and keys that fail.
func (m *Manager) notes() (notes []string) {
	if kinds := m.cache.NotCounted(); len(kinds) > 0 {
		notes = append(notes, "not counted: "+strings.Join(kinds, ", "))
	}
	for _, member := range m.present.Load().members {
		if member.isBlocked() {
			notes = append(notes, "controller "+member.name+" waits for a kind that the server refuses")
		}
	}
	slices.Sort(notes)
	if failing := (&work{m}).failing(); len(failing) > 0 {
		notes = append(notes, "failing: "+strings.Join(failing, ", "))
	}
	return notes
}
