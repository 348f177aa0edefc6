package operators

import (
	"container/heap"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// setRoster swaps in a new snapshot of the controllers, if they changed. It drops the tasks that
// wait for a removed controller. Attempts in flight run to their end.
func (s *schedule) setRoster(now *roster) {
	if now == s.roster {
		return
	}
	if now.forgotten != s.roster.forgotten {
		s.echoes.Purge()
	}
	s.roster, s.last = now, nil
	for name, known := range s.queues {
		controller := now.controllers[name]
		if controller == known.controller || controller == nil && known.unknown {
			if !known.gate.open && !now.shut[name] {
				known.gate.open = true
				s.drainGate(&known.gate, time.Now())
			}
			continue
		}
		s.dropTasks(known)
		known.controller, known.unknown = controller, false
		known.gate = gate{open: !now.shut[name]}
		known.asked = 0
		s.setRunning(known, 0, 0) // Attempts of the former controller may hang, and do not count for this one.
		s.dropIfUnused(known)
	}
	s.shares.resize(len(now.controllers))
}

// dropTasks drops the tasks that wait for the controller of a queue.
func (s *schedule) dropTasks(of *controllerQueue) {
	if of.queued.len() > 0 {
		s.turns.filter(func(other *controllerQueue) bool { return other != of })
		of.queued = taskQueue{}
	}
	for name, waiting := range of.tasks.items {
		s.untrack(waiting)
		switch waiting.state {
		case stateRunning:
			waiting.later = nil
			continue
		case stateHeld:
			s.leaveGate(waiting)
			s.waiting--
			of.controller.Stats.Waiting.Add(-1)
		case stateQueued:
			s.queued--
			s.waiting--
			of.controller.Stats.Waiting.Add(-1)
		case stateBackoff, stateRequeue:
			heap.Remove(&s.delays, waiting.position)
			s.endDelay(waiting)
		}
		s.dropTask(name, waiting)
	}
}

// dropTask drops a task with nothing to do, and keeps its memory for reuse.
func (s *schedule) dropTask(name types.NamespacedName, idle *task) {
	idle.queue.tasks.delete(name)
	if len(s.spare) < maxSpareTasks {
		*idle = task{}
		s.spare = append(s.spare, idle)
	}
}

// dropIfUnused drops the queue of a removed controller when the last attempt has ended. Until then,
// a new controller's attempt for the same object must not overlap that attempt. It drops the queue
// of an unknown controller as well.
func (s *schedule) dropIfUnused(ended *controllerQueue) {
	if (ended.controller == nil || ended.unknown) && ended.tasks.len() == 0 {
		delete(s.queues, ended.name)
		if s.last == ended {
			s.last = nil
		}
	}
}
