package operators

import (
	"container/heap"
	"time"

	"github.com/bellerophon-io/bellerophon/streams"
	lru "github.com/hashicorp/golang-lru/v2"
	"k8s.io/apimachinery/pkg/types"
)

// echoesRemembered bounds the own writes whose events are still to come. One that is
// forgotten costs a reconcile that finds nothing to do.
const echoesRemembered = 1 << 14

// schedule decides what to reconcile next. It knows no channels, starts no timers and
// takes no locks.
type schedule struct {
	backoff Backoff
	shares  shares
	roster  *roster
	lines   map[string]*line
	last    *line       // the one of the last request: most come in runs
	turns   fifo[*line] // those with something queued, in turn
	delays  delays
	delayed int // delays so far
	gate    gate
	tickets int // that tasks got at gates so far
	held    int // tasks that wait for a gate
	queued  int // tasks that wait for a worker
	waiting int // tasks that are held or queued, back off, or are due again soon
	running int
	echoes  *lru.Cache[echo, target] // own writes whose event has not come yet
	spare   []*task

	unfinished *Unfinished // may be nil
}

// line is the tasks of one controller.
type line struct {
	name       string
	controller *Controller // nil when it is removed, while attempts are in flight
	unknown    bool        // there is no controller of the name, and there was none lately
	tasks      table[types.NamespacedName, *task]
	queue      fifo[*task] // first come first served
	gate       gate        // of this controller: see Controller.Held
	running    int         // attempts of this controller, without those of one before it
	held       int         // tasks that wait for a gate
	backing    int         // tasks that back off, or are due again soon
}

// target is the identity of a request.
type target struct {
	controller string
	object     types.NamespacedName
}

// task is an object that waits or is worked on. Objects with nothing to do have none.
type task struct {
	line     *line
	by       *Controller // who works on it
	state    taskState
	request  Request         // what it waits for, or is worked on
	again    bool            // requests came during the attempt
	later    Request         // those requests
	mended   []streams.Cause // of those that are Mended
	failures int             // in a row
	row      *row            // of failures; nil without one
	queuedAt time.Time
	due      time.Time
	pending  bool  // counted in backing
	gate     *gate // that it waits for
	ticket   int   // of its last wait for a gate
	delayed  int   // how many delays there were before this one: who waits first goes first
	position int   // in delays

	unfinished *unfinished // its entry there; nil if it has none
}

type taskState uint8

const (
	stateQueued taskState = iota
	stateHeld             // waits for a gate
	stateRunning
	stateBackoff // waits after a failure; requests do not change that, unless their object was mended
	stateRequeue // waits because it asked for it; a request ends that
	stateEnded   // waits for a request, and is kept for its entry in Unfinished alone
)

type echo struct {
	key             streams.Key
	resourceVersion string
}

// newSchedule creates a schedule whose gate of all controllers is shut.
func newSchedule(workers int, backoff Backoff, unfinished *Unfinished) *schedule {
	echoes, err := lru.New[echo, target](echoesRemembered)
	if err != nil {
		panic(err) // Only for a size below 1.
	}
	return &schedule{
		backoff: backoff, shares: newShares(workers), roster: &roster{}, lines: map[string]*line{},
		echoes: echoes, unfinished: unfinished,
	}
}

// line is that of a controller, which may be one that there never was. It is nil for one
// that is removed.
func (s *schedule) line(name string) *line {
	if s.last != nil && s.last.name == name {
		return s.last
	}
	known := s.lines[name]
	if known == nil {
		controller := s.roster.controllers[name]
		if controller == nil && s.roster.removed.Contains(name) {
			return nil
		}
		unknown := controller == nil
		if unknown {
			controller = &Controller{Reconcile: missing(name), Stats: &StageStats{}}
		}
		known = &line{name: name, controller: controller, unknown: unknown}
		known.gate.open = !s.roster.shut[name]
		s.lines[name] = known
	}
	if known.controller == nil {
		return nil
	}
	s.last = known
	return known
}

// add takes in a request.
func (s *schedule) add(request *Request, now time.Time) {
	to := s.line(request.Controller)
	if to == nil {
		return
	}
	s.take(to, request, now)
	to.controller.Stats.In.Add(1) // Last: see Flow.
}

// take takes in a request for a controller.
func (s *schedule) take(to *line, request *Request, now time.Time) {
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
	case stateBackoff:
		request.Mended = request.Mended && !known.row.isOwn(request.Causes)
		if known.request = joined(known.request, *request); request.Mended {
			s.mend(known, request.Received, now)
		}
	case stateHeld:
		if known.request = joined(known.request, *request); request.BeforeSync {
			s.pass(known, request.Received)
		}
	case stateRunning:
		if request.Mended {
			known.mended = streams.JoinCauses(known.mended, request.Causes)
		}
		if !known.again {
			known.again, known.later = true, *request
			return
		}
		known.later = joined(known.later, *request)
	case stateRequeue:
		heap.Remove(&s.delays, known.position)
		known.request = *request
		s.enqueue(known, now) // First, so that at no time nothing seems to be left.
		s.awaken(known)
	case stateEnded:
		known.request = *request
		s.enqueue(known, now)
	}
}

// maxSpareTasks bounds the tasks that are kept for use again.
const maxSpareTasks = 1024

func (s *schedule) newTask(of *line, request *Request) *task {
	if last := len(s.spare) - 1; last >= 0 {
		spare := s.spare[last]
		s.spare[last] = nil
		s.spare = s.spare[:last]
		spare.line, spare.request = of, *request
		return spare
	}
	return &task{line: of, request: *request}
}

func joined(first, second Request) Request {
	first.Causes = streams.JoinCauses(first.Causes, second.Causes)
	first.BeforeSync = first.BeforeSync || second.BeforeSync
	first.Mended = first.Mended || second.Mended
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

// start takes the task whose turn it is. There is one: see ready.
func (s *schedule) start() *task {
	line := s.next()
	next := line.queue.pop()
	if line.queue.len() > 0 {
		s.turns.push(line)
	}
	s.runs(line, line.running+1)
	next.state, next.by = stateRunning, line.controller
	s.running++
	line.controller.Stats.Running.Add(1)
	s.queued--
	s.waiting--
	line.controller.Stats.Waiting.Add(-1)
	return next
}

// finish notes the result of a task and decides what becomes of it. It sets the time
// after which the next attempt is due, if one is.
func (s *schedule) finish(finished *task, result *Result, now time.Time) {
	line, by := finished.line, finished.by
	stays := line.controller == by
	if stays && by.IgnoreEchoes {
		to := target{line.name, result.NamespacedName}
		for _, write := range result.Writes {
			if write.Sole {
				s.echoes.Add(echo{write.Key, write.ResourceVersion}, to)
			}
		}
		if finished.again && s.isEcho(to, finished.later.Causes) {
			finished.again, finished.later = false, Request{}
		}
	}
	again, later := finished.again, finished.later
	finished.again, finished.later = false, Request{}
	finished.request = Request{Controller: line.name, NamespacedName: result.NamespacedName}
	if stays && !line.unknown {
		s.track(finished, result)
	}
	if !stays {
		result.RequeueAfter = 0
	}
	switch {
	case stays && result.Outcome == Failed:
		s.fail(finished, result, later, now)
	case again:
		finished.calm()
		finished.request = later
		s.enqueue(finished, now)
	case stays && result.Outcome == Requeued:
		finished.calm()
		s.delay(finished, stateRequeue, now, now.Add(result.RequeueAfter))
	case finished.unfinished != nil:
		finished.calm()
		finished.state = stateEnded
	default:
		s.drop(result.NamespacedName, finished)
		s.leave(line)
	}
	finished.mended = nil
	s.running--
	if stays {
		s.runs(line, line.running-1)
	}
	by.Stats.Out.Add(1)
	by.Stats.Running.Add(-1) // Last, so that at no time nothing seems to be left.
}

// soon is the time within which a task that asked to be looked at again counts as waiting:
// what is under way is not calm. Beyond it, it is a routine. One that backs off counts as
// well, until it is failing.
const soon = 5 * time.Second

func (s *schedule) delay(next *task, state taskState, now, due time.Time) {
	next.state, next.due = state, due
	if state == stateBackoff && next.failures < FailingAfter || state == stateRequeue && due.Sub(now) <= soon {
		next.pending = true
		next.line.backing++
		s.waiting++
		next.line.controller.Stats.Waiting.Add(1)
	}
	s.delayed++
	next.delayed = s.delayed
	heap.Push(&s.delays, next)
}

// awaken notes that a task waits no more.
func (s *schedule) awaken(next *task) {
	if next.pending {
		next.pending = false
		next.line.backing--
		s.waiting--
		next.line.controller.Stats.Waiting.Add(-1)
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
		next.request.Received = now
		s.enqueue(next, now) // First, as in add.
		s.awaken(next)
	}
}

// abandon gives up what waits.
func (s *schedule) abandon() {
	for _, line := range s.lines {
		line.controller.Stats.Waiting.Add(-int64(line.held + line.queue.len() + line.backing))
	}
	s.waiting = 0
	s.untrackAll()
}
