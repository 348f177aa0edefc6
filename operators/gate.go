package operators

import (
	"slices"
	"time"
)

// gate is the tasks that wait for it to open, in the order in which they came.
type gate struct {
	open    bool
	entries []heldTask
	held    int // tasks that wait
}

// heldTask is a task that waits for a gate, unless its ticket is another one by now: then it
// has passed, or waits anew.
type heldTask struct {
	task   *task
	ticket int
}

func (h heldTask) waits() bool { return h.task.state == stateHeld && h.task.ticket == h.ticket }

// add has a task wait for the gate.
func (g *gate) add(next *task, ticket int) {
	if len(g.entries) == cap(g.entries) && len(g.entries) > 2*g.held+64 { // BeforeSync requests have let most of them pass.
		g.entries = slices.Clip(slices.DeleteFunc(g.entries, func(entry heldTask) bool { return !entry.waits() }))
	}
	next.state, next.ticket, next.gate = stateHeld, ticket, g
	g.entries = append(g.entries, heldTask{next, ticket})
	g.held++
}

// take returns the tasks that wait for the gate, each of which the caller has to release.
func (g *gate) take() []heldTask {
	waiting := slices.DeleteFunc(g.entries, func(entry heldTask) bool { return !entry.waits() })
	g.entries = nil
	return waiting
}

// gateOf returns the gate that a task has to wait for: first that of all controllers, then
// that of its own. It is nil if the task may pass.
func (s *schedule) gateOf(next *task) *gate {
	switch {
	case next.request.BeforeSync:
		return nil
	case !s.gate.open:
		return &s.gate
	case !next.line.gate.open:
		return &next.line.gate
	}
	return nil
}

// hold has a task wait for a gate.
func (s *schedule) hold(next *task, shut *gate) {
	s.tickets++
	shut.add(next, s.tickets)
	next.line.held++
	s.held++
}

// release notes that a task waits for a gate no more.
func (s *schedule) release(held *task) {
	held.gate.held--
	held.gate = nil
	held.line.held--
	s.held--
}

// pass queues a task that waited for a gate. The time at the gate is no part of the time
// that its request takes: see Request.Received.
func (s *schedule) pass(held *task, received time.Time) {
	s.release(held)
	held.request.Received = received
	s.push(held)
}

// openGate opens the gate of all controllers: what has waited for it is queued, or waits
// for the gate of its own controller.
func (s *schedule) openGate(now time.Time) {
	s.gate.open = true
	s.reopen(&s.gate, now)
}

// reopen queues what has waited for a gate, or has it wait for the next one.
func (s *schedule) reopen(opened *gate, now time.Time) {
	for _, entry := range opened.take() {
		if next := s.gateOf(entry.task); next != nil {
			s.release(entry.task)
			s.hold(entry.task, next)
		} else {
			s.pass(entry.task, now)
		}
	}
}

// push appends a task to its line.
func (s *schedule) push(next *task) {
	next.state = stateQueued
	if next.line.queue.len() == 0 {
		s.turns.push(next.line)
	}
	next.line.queue.push(next)
	s.queued++
}

// enqueue has a task wait for its turn, behind the gates unless it may pass.
func (s *schedule) enqueue(next *task, now time.Time) {
	next.queuedAt = now
	if shut := s.gateOf(next); shut != nil {
		s.hold(next, shut)
	} else {
		s.push(next)
	}
	s.waiting++
	next.line.controller.Stats.Waiting.Add(1)
}
