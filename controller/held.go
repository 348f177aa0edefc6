package controller

import (
	"slices"
	"strings"

	"github.com/bellerophon-io/bellerophon/controller/pipeline"
	"github.com/bellerophon-io/bellerophon/sources"
)

// heldBySources calls hold for each controller that has not joined yet, and for each watch that
// lists or whose events have not been received by the debounce.
func (m *Manager) heldBySources(hold pipeline.Hold) {
	present := m.present.Load()
	for _, member := range present.members {
		if member.joins.Load() && !member.isBlocked() {
			hold("joining "+member.name, 1)
		}
	}
	for _, watched := range present.watches {
		store := watched.store()
		if store == nil {
			continue
		}
		status := watched.options.Status
		if sources.WatchState(status.State.Load()) == sources.Listing && store.Counts() {
			hold("list of "+watched.kind.Kind, 1)
		}
		hold("watch of "+watched.kind.Kind, int64(status.Held()))
	}
}

// heldByControllers calls hold for each controller that has requests to do or attempts in flight.
func (m *Manager) heldByControllers(hold pipeline.Hold) {
	for name, member := range m.present.Load().members {
		switch stats := member.controller.Stats; {
		case member.isBlocked(): // Requests at its gate may wait for ever.
			hold(name, stats.Running.Load())
		case stats.Busy(): // Exact, also for a request that moves between the two counts.
			hold(name, max(1, stats.Waiting.Load()+stats.Running.Load()))
		}
	}
}

// isBlocked reports whether the controller waits for a kind that the server does not serve, or
// forbids.
func (m *member) isBlocked() bool {
	return slices.ContainsFunc(m.watches, func(needed *watched) bool { return needed.refused.Load() })
}

// recount sets which kinds count. Kinds that the server refuses do not, unless no controller can
// work without them: a manager that can do nothing must not look well.
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
	if failing := m.pipeline.Failing(); len(failing) > 0 {
		notes = append(notes, "failing: "+strings.Join(failing, ", "))
	}
	return notes
}
