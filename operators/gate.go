package operators

import "time"

// gate is what waits for Start, in the order in which it came.
type gate struct {
	open    bool
	entries []entrant // some of which wait no more
	held    int       // tasks that wait
}

// entrant is a task that came to the gate. Its number tells whether it waits there still: tasks
// are used again.
type entrant struct {
	task   *task
	number int
}

// hold has a task wait for the gate.
func (s *schedule) hold(next *task) {
	s.gate.entries = append(s.gate.entries, entrant{next, len(s.gate.entries) + 1})
	next.state, next.entrant = stateHeld, len(s.gate.entries)
	next.line.held++
	s.gate.held++
}

// release notes that a task waits for the gate no more.
func (s *schedule) release(held *task) {
	held.entrant = 0
	held.line.held--
	s.gate.held--
}

// openGate queues what has waited for the gate, and lets all that comes from now on pass.
func (s *schedule) openGate() {
	s.gate.open = true
	for _, entrant := range s.gate.entries {
		if waiting := entrant.task; waiting.entrant == entrant.number {
			s.release(waiting)
			s.push(waiting)
		}
	}
	s.gate.entries = nil
}

// passEarly queues a task that waited for the gate, and needs to no more.
func (s *schedule) passEarly(held *task) {
	s.release(held)
	s.push(held)
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

// enqueue has a task wait for its turn, behind the gate unless it may pass.
func (s *schedule) enqueue(next *task, now time.Time) {
	next.queuedAt = now
	if s.gate.open || next.request.Early {
		s.push(next)
	} else {
		s.hold(next)
	}
	s.waiting++
	next.line.controller.Flow.Waiting.Add(1)
}
