package operators

import (
	"slices"
	"time"
)

// gate holds the tasks that wait for it to open, in the order in which they came.
type gate struct {
	open    bool
	entries []heldTask
	held    int // tasks that wait
}

// heldTask is a task in a gate. The entry is stale if the task has another ticket: it has passed
// the gate since, or waits anew.
type heldTask struct {
	task   *task
	ticket int
}

// waits reports whether the task still waits with this ticket.
func (h heldTask) waits() bool { return h.task.state == stateHeld && h.task.ticket == h.ticket }

// add makes a task wait for the gate.
func (g *gate) add(next *task, ticket int) {
	// Drop stale entries when most are stale: a BeforeSync request leaves one behind for a task
	// that it lets pass.
	if len(g.entries) == cap(g.entries) && len(g.entries) > 2*g.held+64 {
		g.entries = slices.Clip(slices.DeleteFunc(g.entries, func(entry heldTask) bool { return !entry.waits() }))
	}
	next.state, next.ticket, next.gate = stateHeld, ticket, g
	g.entries = append(g.entries, heldTask{next, ticket})
	g.held++
}

// takeAll returns the tasks that wait for the gate, and drops its entries. The caller has to call
// leaveGate for each task.
func (g *gate) takeAll() []heldTask {
	waiting := slices.DeleteFunc(g.entries, func(entry heldTask) bool { return !entry.waits() })
	g.entries = nil
	return waiting
}

// gateOf returns the gate that a task has to wait for: first the gate of all controllers, then the
// gate of its own controller. It returns nil if the task may pass.
func (s *schedule) gateOf(next *task) *gate {
	switch {
	case next.request.BeforeSync:
		return nil
	case !s.gate.open:
		return &s.gate
	case !next.queue.gate.open:
		return &next.queue.gate
	}
	return nil
}

// hold makes a task wait for a gate.
func (s *schedule) hold(next *task, shut *gate) {
	s.tickets++
	shut.add(next, s.tickets)
	next.queue.held++
	s.held++
	next.queue.controller.Stats.Held.Add(1)
}

// leaveGate records that a task no longer waits for a gate.
func (s *schedule) leaveGate(held *task) {
	held.gate.held--
	held.gate = nil
	held.queue.held--
	s.held--
	held.queue.controller.Stats.Held.Add(-1)
}

// passGate queues a task that waited for a gate. The wait at the gate does not count as latency of
// the request: see Request.Received.
func (s *schedule) passGate(held *task, received time.Time) {
	s.leaveGate(held)
	held.request.Received = received
	s.push(held)
}

// openGate opens the gate of all controllers. The tasks that waited for it are queued, or wait for
// the gate of their own controller.
func (s *schedule) openGate(now time.Time) {
	s.gate.open = true
	s.drainGate(&s.gate, now)
}

// drainGate queues the tasks that waited for a gate, or makes them wait for the next gate.
func (s *schedule) drainGate(opened *gate, now time.Time) {
	s.clock = now
	for _, entry := range opened.takeAll() {
		if next := s.gateOf(entry.task); next != nil {
			s.leaveGate(entry.task)
			s.hold(entry.task, next)
		} else {
			s.passGate(entry.task, now)
		}
	}
}

// push appends a task to the queue of its controller.
func (s *schedule) push(next *task) {
	next.state = stateQueued
	if next.queue.queued.len() == 0 {
		s.turns.push(next.queue)
	}
	s.tickets++
	next.queue.queued.push(next, s.tickets)
	s.queued++
}

// enqueue makes a task wait for its turn, behind the gates unless it may pass them.
func (s *schedule) enqueue(next *task, now time.Time) {
	next.queuedAt = now
	if shut := s.gateOf(next); shut != nil {
		s.hold(next, shut)
	} else {
		s.push(next)
	}
	s.waiting++
	next.queue.controller.Stats.Waiting.Add(1)
}
