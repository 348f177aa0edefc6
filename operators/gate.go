package operators

import "time"

// gate is what waits for Start, in the order in which it came.
type gate struct {
	open    bool
	entries []*task // some of which wait no more, and may be used again, or are here twice
	held    int     // tasks that wait
}

// hold has a task wait for the gate.
func (s *schedule) hold(next *task) {
	s.gate.entries = append(s.gate.entries, next)
	next.state = stateHeld
	next.line.held++
	s.gate.held++
}

// release notes that a task waits for the gate no more.
func (s *schedule) release(held *task) {
	held.line.held--
	s.gate.held--
}

// pass queues a task that has waited for the gate.
func (s *schedule) pass(held *task) {
	s.release(held)
	s.push(held)
}

// openGate queues what has waited for the gate, and lets all that comes from now on pass.
func (s *schedule) openGate() {
	s.gate.open = true
	for _, waiting := range s.gate.entries {
		if waiting.state == stateHeld {
			s.pass(waiting)
		}
	}
	s.gate.entries = nil
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
