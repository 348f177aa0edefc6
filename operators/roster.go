package operators

import (
	"container/heap"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// follow goes on with other controllers, if they are others. What waits for one that was
// removed is dropped; attempts in flight end by themselves.
func (s *schedule) follow(now *roster) {
	if now == s.roster {
		return
	}
	if now.forgotten != s.roster.forgotten {
		s.echoes.Purge()
	}
	s.roster, s.last = now, nil
	for name, known := range s.lines {
		controller := now.controllers[name]
		if controller == known.controller || controller == nil && known.unknown {
			if !known.gate.open && !now.shut[name] {
				known.gate.open = true
				s.reopen(&known.gate, time.Now())
			}
			continue
		}
		s.clear(known)
		known.controller, known.unknown = controller, false
		known.gate = gate{open: !now.shut[name]}
		s.runs(known, 0) // Attempts of the one before may hang, and are no attempts of this one.
		s.leave(known)
	}
	s.shares.follow(len(now.controllers))
}

// clear drops what waits for the controller of a line.
func (s *schedule) clear(of *line) {
	if of.queue.len() > 0 {
		s.turns.filter(func(other *line) bool { return other != of })
		of.queue = fifo[*task]{}
	}
	for name, waiting := range of.tasks.items {
		s.untrack(waiting)
		switch waiting.state {
		case stateRunning:
			waiting.again, waiting.later = false, Request{}
			continue
		case stateHeld:
			s.release(waiting)
			s.waiting--
			of.controller.Stats.Waiting.Add(-1)
		case stateQueued:
			s.queued--
			s.waiting--
			of.controller.Stats.Waiting.Add(-1)
		case stateBackoff, stateRequeue:
			heap.Remove(&s.delays, waiting.position)
			s.awaken(waiting)
		}
		s.drop(name, waiting)
	}
}

// drop forgets a task with nothing to do.
func (s *schedule) drop(name types.NamespacedName, idle *task) {
	idle.line.tasks.delete(name)
	if len(s.spare) < maxSpareTasks {
		*idle = task{}
		s.spare = append(s.spare, idle)
	}
}

// leave forgets a line whose controller is removed, when the last attempt has ended: until
// then, one for the same object must not overlap it. It forgets a line of an unknown
// controller as well.
func (s *schedule) leave(ended *line) {
	if (ended.controller == nil || ended.unknown) && ended.tasks.len() == 0 {
		delete(s.lines, ended.name)
		if s.last == ended {
			s.last = nil
		}
	}
}
