package operators

import "time"

// stuckAfter is how long an attempt runs until it counts as stuck. A stuck attempt counts for its own
// controller, and no longer for the others. For them it is as if it had ended: another worker starts when they
// need one. Until then, the others have their shares. docs/decisions.md says why it is a second.
const stuckAfter = time.Second

// begin adds a task to s.attempts, and sets when it counts as stuck. An attempt starts when its task is queued
// or passes a gate, or when another attempt ends or becomes stuck. The latest of these times stands for the start:
// a look at the clock under the lock cost 4 % of CPU at 300,000 events a second.
func (s *schedule) begin(next *task) {
	started := next.queuedAt
	if s.clock.After(started) {
		started = s.clock
	}
	next.state, next.due, next.position = stateRunning, started.Add(stuckAfter), len(s.attempts)
	if last := len(s.free) - 1; last >= 0 {
		next.position, s.free = s.free[last], s.free[:last]
		s.attempts[next.position] = next
	} else {
		s.attempts = append(s.attempts, next)
	}
	s.running++
	s.setRunning(next.queue, next.queue.running+1, next.queue.stuck)
	if next.urgency == asked {
		next.queue.asked++
	}
	if next.slow && s.stuck < s.shares.stuck { // Otherwise each retry would hold a worker for a while.
		s.setStuck(next)
	}
}

// end removes a task from s.attempts.
func (s *schedule) end(ended *task, now time.Time) {
	s.clock = now
	s.attempts[ended.position] = nil // Moving another one here would touch memory that its worker reads.
	s.free = append(s.free, ended.position)
	s.running--
	stuck := 0
	if ended.stuck {
		stuck = 1
		s.stuck--
	}
	if ended.controller == ended.queue.controller {
		s.setRunning(ended.queue, ended.queue.running-1, ended.queue.stuck-stuck)
		if ended.urgency == asked {
			ended.queue.asked--
		}
	}
	ended.stuck, ended.slow = false, !now.Before(ended.due)
}

// setStuck counts a task that runs as stuck.
func (s *schedule) setStuck(stuck *task) {
	stuck.stuck = true
	s.stuck++
	if stuck.controller == stuck.queue.controller { // Otherwise the controller was removed or replaced.
		s.setRunning(stuck.queue, stuck.queue.running, stuck.queue.stuck+1)
	}
}

// contended reports whether a task waits beside attempts of other controllers. Only then it matters
// whether these are stuck.
func (s *schedule) contended() bool {
	waiting := s.turns.all()
	return len(waiting) > 1 || len(waiting) == 1 && waiting[0].running < s.running
}

// noteStuck notes which attempts are stuck. It looks at most once for each time at which one can
// become stuck.
func (s *schedule) noteStuck(now time.Time) {
	if now.Before(s.nextStuck) {
		return
	}
	s.clock = now
	s.nextStuck = now.Add(stuckAfter) // Attempts that start from now on become stuck later.
	for _, next := range s.attempts {
		switch {
		case next == nil || next.stuck || s.stuck >= s.shares.stuck:
		case next.due.After(now):
			if next.due.Before(s.nextStuck) {
				s.nextStuck = next.due
			}
		default:
			s.setStuck(next)
		}
	}
}

// workersWanted returns how many workers there should be, at most.
func (s *schedule) workersWanted() int { return s.shares.workers + s.stuck }
