package controller

import (
	"slices"
	"strings"

	"github.com/bellerophon-io/bellerophon/controller/pipeline"
	"github.com/bellerophon-io/bellerophon/sources"
)

// heldBySources calls hold for each controller that has not joined yet, and for map functions that are asked
// outside of the pipeline. It also calls hold for each watch that lists, or has events that the debounce has not
// received yet.
func (m *Manager) heldBySources(hold pipeline.Hold) {
	hold("map functions", m.mapping.Load())
	present := m.present.Load()
	for _, member := range present.members {
		if member.joins.Load() && !member.isBlocked() {
			hold(m.joining(member)+member.name, 1)
		}
		if member.shared != nil && !member.isBlocked() && !m.share.isComplete(member) {
			hold("share of "+member.name, 1)
		}
	}
	for _, watched := range present.watches {
		store := watched.store()
		if store == nil {
			continue
		}
		status := watched.options.Status
		if sources.WatchState(status.State.Load()) == sources.Listing && store.IsCounted() {
			hold("list of "+watched.kind.Kind, 1)
		}
		hold("watch of "+watched.kind.Kind, int64(status.Held()))
	}
}

// joining returns why a controller has not joined.
func (m *Manager) joining(of *member) string {
	if of.elected && m.leader.elector.Epoch() == nil {
		return "the Lease for "
	}
	return "joining "
}

// heldByControllers calls hold for each controller with pending requests or attempts in flight.
func (m *Manager) heldByControllers(hold pipeline.Hold) {
	for name, member := range m.present.Load().members {
		switch stats := member.controller.Stats; {
		case member.isBlocked(): // Requests that wait for its gate may wait for ever, so they do not count.
			running := stats.Running.Load()
			queued := stats.Waiting.Load() - stats.Held.Load()
			hold(name, max(running, stats.Running.Load())+queued) // A request may move between the counts meanwhile.
		case stats.Busy(): // Busy is exact, also while a request moves between the two counts.
			hold(name, max(1, stats.Waiting.Load()+stats.Running.Load()))
		}
	}
}

// isBlocked reports whether the controller waits for a kind that the server does not serve or forbids.
func (m *member) isBlocked() bool {
	return slices.ContainsFunc(m.watches, func(needed *watched) bool { return needed.refused.Load() })
}

// recount sets which kinds count for the level. Kinds that the server refuses do not, unless every
// controller waits for such a kind: a manager that can do nothing must not look healthy.
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

// notes returns text for people about kinds that do not count, controllers that wait for refused kinds, keys
// that fail, and whether this replica leads.
func (m *Manager) notes() (notes []string) {
	notes = append(notes, m.leader.notes()...)
	if kinds := m.cache.NotCounted(); len(kinds) > 0 {
		notes = append(notes, "not counted: "+strings.Join(kinds, ", "))
	}
	for name, kinds := range m.waits() {
		if len(kinds) == 0 {
			continue
		}
		notes = append(notes, "controller "+name+" waits for a kind that the server refuses: "+strings.Join(kinds, ", "))
	}
	slices.Sort(notes)
	if failing := m.pipeline.Failing(); len(failing) > 0 {
		notes = append(notes, "failing: "+strings.Join(failing, ", "))
	}
	return notes
}
