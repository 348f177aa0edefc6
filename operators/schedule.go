package operators

import (
	"container/heap"
	"time"

	"github.com/bellerophon-io/bellerophon/streams"
	lru "github.com/hashicorp/golang-lru/v2"
)

// echoesRemembered bounds the own writes whose events are still to come. One that is
// forgotten costs a reconcile that finds nothing to do.
const echoesRemembered = 1 << 14

// schedule decides what to reconcile next. It knows no channels and starts no timers;
// one goroutine uses it.
type schedule struct {
	backoff Backoff
	tasks   map[target]*task
	queues  map[string][]*task // by controller, first come first served
	turns   []string           // controllers whose queue is not empty, in turn
	delays  delays
	delayed int            // delays so far
	backing map[string]int // by controller: tasks that back off, or are due again soon
	running int
	echoes  *lru.Cache[echo, target] // own writes whose event has not come yet
}

// task is an object that waits or is worked on. Objects with nothing to do have none.
type task struct {
	target   target
	state    taskState
	request  Request // what it waits for, or is worked on
	again    bool    // requests came during the attempt
	later    Request // those requests
	failures int     // in a row
	queuedAt time.Time
	due      time.Time
	pending  bool // counted in backing
	delayed  int  // how many delays there were before this one: who waits first goes first
	position int  // in delays
}

type taskState uint8

const (
	stateQueued taskState = iota
	stateRunning
	stateBackoff // waits after a failure; requests do not change that
	stateRequeue // waits because it asked for it; a request ends that
)

type echo struct {
	key             streams.Key
	resourceVersion string
}

func newSchedule(backoff Backoff) *schedule {
	echoes, err := lru.New[echo, target](echoesRemembered)
	if err != nil {
		panic(err) // Only for a size below 1.
	}
	return &schedule{backoff: backoff, tasks: map[target]*task{}, queues: map[string][]*task{}, backing: map[string]int{}, echoes: echoes}
}

// add takes in a request.
func (s *schedule) add(request Request, ignoreEchoes bool, now time.Time) {
	to := target{request.Controller, request.NamespacedName}
	if ignoreEchoes && s.isEcho(to, request.Causes) {
		return
	}
	known := s.tasks[to]
	if known == nil {
		known = &task{target: to, request: request}
		s.tasks[to] = known
		s.enqueue(known, now)
		return
	}
	switch known.state {
	case stateQueued, stateBackoff:
		known.request = joined(known.request, request)
	case stateRunning:
		if !known.again {
			known.again, known.later = true, request
			return
		}
		known.later = joined(known.later, request)
	case stateRequeue:
		heap.Remove(&s.delays, known.position)
		s.awaken(known)
		known.request = request
		s.enqueue(known, now)
	}
}

func joined(first, second Request) Request {
	first.Causes = streams.JoinCauses(first.Causes, second.Causes)
	if !second.Received.IsZero() && second.Received.Before(first.Received) {
		first.Received = second.Received
	}
	return first
}

// isEcho says whether all causes are the target's own writes, each of which it takes
// out of what is remembered.
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

func (s *schedule) enqueue(next *task, now time.Time) {
	next.state, next.queuedAt = stateQueued, now
	queue := s.queues[next.target.controller]
	if len(queue) == 0 {
		s.turns = append(s.turns, next.target.controller)
	}
	s.queues[next.target.controller] = append(queue, next)
}

// peek is the task whose turn it is, or nil.
func (s *schedule) peek() *task {
	if len(s.turns) == 0 {
		return nil
	}
	return s.queues[s.turns[0]][0]
}

// start notes that the task that peek returned is worked on.
func (s *schedule) start(next *task) {
	name := s.turns[0]
	s.turns = s.turns[1:]
	queue := s.queues[name]
	queue[0] = nil
	if queue = queue[1:]; len(queue) > 0 {
		s.queues[name] = queue
		s.turns = append(s.turns, name)
	} else {
		delete(s.queues, name)
	}
	next.state = stateRunning
	s.running++
}

// finish notes the result of a task and decides what becomes of it. It returns the
// result with the time after which the next attempt is due, if one is.
func (s *schedule) finish(result Result, ignoreEchoes bool, now time.Time) Result {
	s.running--
	to := target{result.Controller, result.NamespacedName}
	finished := s.tasks[to]
	if ignoreEchoes {
		for _, write := range result.Writes {
			if !write.Sole {
				continue
			}
			s.echoes.Add(echo{write.Key, write.ResourceVersion}, to)
		}
		if finished.again && s.isEcho(to, finished.later.Causes) {
			finished.again, finished.later = false, Request{}
		}
	}
	again, later := finished.again, finished.later
	finished.again, finished.later = false, Request{}
	finished.request = Request{Controller: to.controller, NamespacedName: to.object}
	switch {
	case result.Outcome == Failed:
		finished.failures++
		finished.request = joined(result.Request, later) // The next attempt is for these causes too.
		result.RequeueAfter = s.backoff.delay(finished.failures)
		s.delay(finished, stateBackoff, now, now.Add(result.RequeueAfter))
	case again:
		finished.failures = 0
		finished.request = later
		s.enqueue(finished, now)
	case result.Outcome == Requeued:
		finished.failures = 0
		s.delay(finished, stateRequeue, now, now.Add(result.RequeueAfter))
	default:
		delete(s.tasks, to)
	}
	return result
}

// soon is the time within which a task that asked to be looked at again counts as waiting:
// what is under way is not calm. Beyond it, it is a routine.
const soon = 5 * time.Second

func (s *schedule) delay(next *task, state taskState, now, due time.Time) {
	next.state, next.due = state, due
	if state == stateBackoff || due.Sub(now) <= soon {
		next.pending = true
		s.backing[next.target.controller]++
	}
	s.delayed++
	next.delayed = s.delayed
	heap.Push(&s.delays, next)
}

// awaken notes that a task waits no more.
func (s *schedule) awaken(next *task) {
	if next.pending {
		next.pending = false
		s.backing[next.target.controller]--
	}
}

// due is when tick has something to do.
func (s *schedule) due() (time.Time, bool) {
	if len(s.delays) == 0 {
		return time.Time{}, false
	}
	return s.delays[0].due, true
}

// tick queues what has waited long enough.
func (s *schedule) tick(now time.Time) {
	for len(s.delays) > 0 && !s.delays[0].due.After(now) {
		next := heap.Pop(&s.delays).(*task)
		s.awaken(next)
		next.request.Received = now
		s.enqueue(next, now)
	}
}

// queued is how many tasks could start now.
func (s *schedule) queued() int {
	queued := 0
	for _, queue := range s.queues {
		queued += len(queue)
	}
	return queued
}

// waiting is how many tasks are queued, back off, or are due again soon.
func (s *schedule) waiting() int {
	waiting := s.queued()
	for _, backing := range s.backing {
		waiting += backing
	}
	return waiting
}

// waitingOf is how many of them are of a controller.
func (s *schedule) waitingOf(controller string) int {
	return len(s.queues[controller]) + s.backing[controller]
}

// delays is a heap of tasks, the next due first.
type delays []*task

func (d delays) Len() int { return len(d) }
func (d delays) Less(i, j int) bool {
	if d[i].due.Equal(d[j].due) {
		return d[i].delayed < d[j].delayed
	}
	return d[i].due.Before(d[j].due)
}
func (d delays) Swap(i, j int) {
	d[i], d[j] = d[j], d[i]
	d[i].position, d[j].position = i, j
}
func (d *delays) Push(next any) {
	next.(*task).position = len(*d)
	*d = append(*d, next.(*task))
}
func (d *delays) Pop() any {
	last := len(*d) - 1
	next := (*d)[last]
	(*d)[last] = nil
	*d = (*d)[:last]
	return next
}
