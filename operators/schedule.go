package operators

import (
	"container/heap"
	"time"

	"github.com/bellerophon-io/bellerophon/streams"
	lru "github.com/hashicorp/golang-lru/v2"
	"k8s.io/apimachinery/pkg/types"
)

// echoesRemembered bounds the own writes whose events have not come yet. A write that is forgotten
// costs a reconcile that finds nothing to do.
const echoesRemembered = 1 << 14

// schedule decides what to reconcile next. It has no channels, starts no timers and takes no locks.
type schedule struct {
	backoff     Backoff
	shares      shares
	roster      *roster
	queues      map[string]*controllerQueue
	last        *controllerQueue       // of the last request: most requests come in runs for one controller
	turns       fifo[*controllerQueue] // the queues with a queued task, in turn
	delays      delays
	delaysSoFar int  // numbers the delays: see task.sequence
	gate        gate // for all controllers: see ReconcileOptions.Start
	tickets     int  // numbers the waits: see task.ticket
	held        int  // tasks that wait for a gate
	queued      int  // tasks that wait for a worker
	waiting     int  // tasks that are held or queued, back off, or are due again soon
	running     int
	attempts    []*task                  // in flight, by task.position; nil for a free place
	free        []int                    // the free places of attempts
	stuck       int                      // attempts in flight that are stuck
	nextStuck   time.Time                // before it, no further attempt becomes stuck
	clock       time.Time                // when an attempt last ended or became stuck, or a gate opened
	echoes      *lru.Cache[echo, target] // own writes whose events have not come yet
	spare       []*task                  // for reuse

	unfinished *Unfinished // may be nil
}

// controllerQueue holds the tasks of one controller.
type controllerQueue struct {
	name       string
	controller *Controller // nil after a removal, while attempts are in flight
	unknown    bool        // the name has no controller, and is not remembered as removed
	tasks      table[types.NamespacedName, *task]
	queued     taskQueue
	gate       gate // for this controller alone: see Controller.Held
	running    int  // attempts of this controller, without attempts of a former one of the name
	stuck      int  // of these
	asked      int  // of running, the attempts for objects that a client added or changed
	held       int  // tasks that wait for a gate
	backingOff int  // tasks that back off, or are due again soon
}

// target identifies the controller and the object of a request.
type target struct {
	controller string
	object     types.NamespacedName
}

// task is an object that waits or is worked on. Objects with nothing to do have no task.
type task struct {
	queue      *controllerQueue
	controller *Controller // the controller that works on it
	state      taskState
	request    Request        // the request that waits, or is worked on
	later      *laterRequest  // the requests that came during the attempt; nil if none came
	failures   int            // in a row
	streak     *failureStreak // of failures; nil without a failure
	queuedAt   time.Time
	due        time.Time // when its delay ends; while it runs, when it counts as stuck
	counted    bool      // in backingOff
	gate       *gate     // the gate that it waits for
	ticket     int       // of its last wait for a gate or for a worker
	urgency    urgency   // of its last wait for a worker
	sequence   int       // number of this delay: of two that are due at once, the older goes first
	position   int       // in delays or attempts
	stuck      bool      // while it runs: see stuckAfter
	slow       bool      // its last attempt ran for stuckAfter or longer

	unfinished *unfinished // its entry in schedule.unfinished, or nil
}

// laterRequest is what came for an object during an attempt, joined. Most attempts end before
// anything comes.
type laterRequest struct {
	Request
	mended []streams.Cause // causes of the requests that are SpecChanged
}

// taskState is what a task waits for.
type taskState uint8

const (
	stateQueued taskState = iota
	stateHeld             // waits for a gate
	stateRunning
	stateBackoff // waits after a failure; a request does not end that, unless its object was mended
	stateRequeue // waits because its reconciler asked for that; a request ends it
	stateEnded   // waits for a request; kept for its entry in Unfinished alone
)

// echo identifies the event that follows an own write.
type echo struct {
	key             streams.Key
	resourceVersion string
}

// newSchedule creates a schedule. Its gate for all controllers is shut.
func newSchedule(workers int, backoff Backoff, unfinished *Unfinished) *schedule {
	echoes, err := lru.New[echo, target](echoesRemembered)
	if err != nil {
		panic(err) // Only for a size below 1.
	}
	return &schedule{
		backoff: backoff, shares: newShares(workers), roster: &roster{}, queues: map[string]*controllerQueue{},
		echoes: echoes, unfinished: unfinished,
	}
}

// queueOf returns the queue of a controller, which it creates if needed; the controller may never
// have existed. It returns nil for a controller that was removed.
func (s *schedule) queueOf(name string) *controllerQueue {
	if s.last != nil && s.last.name == name {
		return s.last
	}
	known := s.queues[name]
	if known == nil {
		controller := s.roster.controllers[name]
		if controller == nil && s.roster.removed.Contains(name) {
			return nil
		}
		unknown := controller == nil
		if unknown {
			controller = &Controller{Reconcile: missing(name), Stats: &StageStats{}}
		}
		known = &controllerQueue{name: name, controller: controller, unknown: unknown}
		known.gate.open = !s.roster.shut[name]
		s.queues[name] = known
	}
	if known.controller == nil {
		return nil
	}
	s.last = known
	return known
}

// add takes in a request.
func (s *schedule) add(request *Request, now time.Time) {
	to := s.queueOf(request.Controller)
	if to == nil {
		return
	}
	s.accept(to, request, now)
	to.controller.Stats.In.Add(1) // Last: see StageStats.
}

// accept takes in a request for the controller of a queue.
func (s *schedule) accept(to *controllerQueue, request *Request, now time.Time) {
	if to.controller.IgnoreEchoes && s.isEcho(target{to.name, request.NamespacedName}, request.Causes) {
		return
	}
	known := to.tasks.get(request.NamespacedName)
	if known == nil {
		known = s.newTask(to, request)
		to.tasks.set(request.NamespacedName, known)
		s.enqueue(known, now)
		return
	}
	switch known.state {
	case stateQueued:
		known.request = joined(known.request, *request)
		if more := urgencyOf(request); more < known.urgency {
			s.tickets++
			to.queued.raise(known, more, s.tickets)
		}
	case stateBackoff:
		request.SpecChanged = request.SpecChanged && !known.streak.isOwn(request.Causes)
		if known.request = joined(known.request, *request); request.SpecChanged {
			s.shortenBackoff(known, request.Received, now)
		}
	case stateHeld:
		if known.request = joined(known.request, *request); request.BeforeSync {
			s.clock = now
			s.passGate(known, request.Received)
		}
	case stateRunning:
		if known.later == nil {
			known.later = &laterRequest{Request: *request}
		} else {
			known.later.Request = joined(known.later.Request, *request)
		}
		if request.SpecChanged {
			known.later.mended = streams.JoinCauses(known.later.mended, request.Causes)
		}
	case stateRequeue:
		heap.Remove(&s.delays, known.position)
		request.BeforeSync = request.BeforeSync || known.request.BeforeSync
		known.request = *request
		s.enqueue(known, now) // First, so that the schedule never looks idle in between.
		s.endDelay(known)
	case stateEnded:
		known.request = *request
		s.enqueue(known, now)
	}
}

// maxSpareTasks bounds the tasks that are kept for reuse.
const maxSpareTasks = 1024

// newTask creates a task, in the memory of a task that was dropped, if there is one.
func (s *schedule) newTask(of *controllerQueue, request *Request) *task {
	if last := len(s.spare) - 1; last >= 0 {
		spare := s.spare[last]
		s.spare[last] = nil
		s.spare = s.spare[:last]
		spare.queue, spare.request = of, *request
		return spare
	}
	return &task{queue: of, request: *request}
}

// joined returns one request for two of the same object, with the causes of both.
func joined(first, second Request) Request {
	first.Causes = streams.JoinCauses(first.Causes, second.Causes)
	first.BeforeSync = first.BeforeSync || second.BeforeSync
	first.SpecChanged = first.SpecChanged || second.SpecChanged
	first.Routine = first.Routine && second.Routine
	if !second.Received.IsZero() && second.Received.Before(first.Received) {
		first.Received = second.Received
	}
	return first
}

// isEcho reports whether all causes are own writes of the target. It removes these writes from the
// remembered ones.
func (s *schedule) isEcho(to target, causes []streams.Cause) bool {
	own := 0
	for _, cause := range causes {
		write := echo{cause.Key, cause.ResourceVersion}
		if cause.Type != streams.Applied {
			continue // Lists and deletions always count.
		}
		if writer, wrote := s.echoes.Peek(write); wrote && writer == to {
			s.echoes.Remove(write)
			own++
		}
	}
	return own > 0 && own == len(causes)
}

// start takes the task whose turn it is. It may be called only if ready returns true.
func (s *schedule) start() *task {
	queue := s.next()
	pop := queue.queued.pop
	if !s.mayFollowUp(queue) {
		pop = queue.queued.popAsked
	}
	next := pop()
	if queue.queued.len() > 0 {
		s.turns.push(queue)
	}
	next.controller = queue.controller
	s.begin(next)
	queue.controller.Stats.Running.Add(1)
	s.queued--
	s.waiting--
	queue.controller.Stats.Waiting.Add(-1)
	return next
}

// finish records the result of a task and decides what follows. It sets RequeueAfter of the result
// if another attempt is due.
func (s *schedule) finish(finished *task, result *Result, now time.Time) {
	queue, by := finished.queue, finished.controller
	stays := queue.controller == by
	s.end(finished, now)
	if stays && by.IgnoreEchoes {
		to := target{queue.name, result.NamespacedName}
		for _, write := range result.Writes {
			if write.Exclusive {
				s.echoes.Add(echo{write.Key, write.ResourceVersion}, to)
			}
		}
		if finished.later != nil && s.isEcho(to, finished.later.Causes) {
			finished.later = nil
		}
	}
	later := finished.later
	finished.later = nil
	if stays && !queue.unknown {
		s.track(finished, result)
	}
	if !stays {
		result.RequeueAfter = 0
	}
	switch {
	case stays && result.Outcome == Failed:
		s.backOff(finished, result, later, now)
	case later != nil:
		finished.resetFailures()
		finished.request = later.Request
		s.enqueue(finished, now)
	case stays && result.Outcome == Requeued:
		finished.resetFailures()
		finished.request = Request{Controller: queue.name, NamespacedName: result.NamespacedName}
		finished.request.BeforeSync = result.BeforeSync && !(s.gate.open && queue.gate.open)
		s.delay(finished, stateRequeue, now, now.Add(result.RequeueAfter))
	case finished.unfinished != nil:
		finished.resetFailures()
		finished.request, finished.state = Request{}, stateEnded
	default:
		s.dropTask(result.NamespacedName, finished)
		s.dropIfUnused(queue)
	}
	by.Stats.Out.Add(1)
	by.Stats.Running.Add(-1) // Last, so that the schedule never looks idle in between.
}

// soon is the time within which a task that asked for another attempt counts as waiting, because
// work in progress is not settled. Beyond it, the attempt is routine. A task that backs off counts
// as waiting too, until it is failing.
const soon = 5 * time.Second

// delay makes a task wait until it is due.
func (s *schedule) delay(next *task, state taskState, now, due time.Time) {
	next.state, next.due = state, due
	if state == stateBackoff && next.failures < FailingAfter || state == stateRequeue && due.Sub(now) <= soon {
		next.counted = true
		next.queue.backingOff++
		s.waiting++
		next.queue.controller.Stats.Waiting.Add(1)
	}
	s.delaysSoFar++
	next.sequence = s.delaysSoFar
	heap.Push(&s.delays, next)
}

// endDelay records that a task is no longer delayed.
func (s *schedule) endDelay(next *task) {
	if next.counted {
		next.counted = false
		next.queue.backingOff--
		s.waiting--
		next.queue.controller.Stats.Waiting.Add(-1)
	}
}

// due returns when tick or noteStuck has something to do, or the zero time.
func (s *schedule) due() (due time.Time) {
	if len(s.delays) > 0 {
		due = s.delays[0].due
	}
	if s.contended() && (due.IsZero() || s.nextStuck.Before(due)) {
		due = s.nextStuck
	}
	return due
}

// tick queues the tasks that are due.
func (s *schedule) tick(now time.Time) {
	for len(s.delays) > 0 && !s.delays[0].due.After(now) {
		next := heap.Pop(&s.delays).(*task)
		next.request.Received = now
		s.enqueue(next, now) // First, as in accept.
		s.endDelay(next)
	}
}

// abandon gives up the tasks that wait, at the end of the run.
func (s *schedule) abandon() {
	for _, queue := range s.queues {
		queue.controller.Stats.Waiting.Add(-int64(queue.held + queue.queued.len() + queue.backingOff))
	}
	s.waiting = 0
	s.untrackAll()
}
