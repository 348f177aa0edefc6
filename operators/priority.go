package operators

import "github.com/bellerophon-io/bellerophon/streams"

// urgency is how soon a queued task is worked on, relative to the other tasks of its controller.
type urgency uint8

const (
	asked   urgency = iota // objects that a client added or changed: see Request.SpecChanged
	urgent                 // other events, retries, timers, and requests of streams
	initial                // objects of a list that nothing else was heard of
	routine                // periodic checks: see Request.Routine
)

// urgencyOf returns the urgency of a request.
func urgencyOf(request *Request) urgency {
	switch {
	case !request.BeforeSync && len(request.Causes) == 0 && request.Routine:
		return routine
	case !request.BeforeSync && len(request.Causes) > 0 && !hasEvent(request.Causes):
		return initial
	case request.SpecChanged:
		return asked
	}
	return urgent
}

// hasEvent reports whether a cause is something else than an object of a list.
func hasEvent(causes []streams.Cause) bool {
	for i := range causes {
		if causes[i].Type != streams.Listed {
			return true
		}
	}
	return false
}

// taskQueue holds the queued tasks of one controller. The most urgent task is first, and among equals the
// one that came first. While less urgent tasks wait too, every fourth turn goes to the task that has
// waited the longest, so that no task waits for ever.
type taskQueue struct {
	lines  [routine + 1]fifo[queuedTask]
	queued int
	passed int // turns in a row in which a less urgent task was passed over
}

// oldestTurn is how often a turn goes to the task that has waited the longest: every fourth time.
const oldestTurn = 4

// queuedTask is a task in a line. The entry is stale if the task has another ticket: it has become more
// urgent since, and is in another line.
type queuedTask struct {
	task   *task
	ticket int
}

func (q queuedTask) waits() bool { return q.task.state == stateQueued && q.task.ticket == q.ticket }

func (q *taskQueue) len() int { return q.queued }

// push adds a task.
func (q *taskQueue) push(added *task, ticket int) {
	added.ticket, added.urgency = ticket, urgencyOf(&added.request)
	q.lines[added.urgency].push(queuedTask{added, ticket})
	q.queued++
}

// raise moves a queued task that has become more urgent.
func (q *taskQueue) raise(raised *task, to urgency, ticket int) {
	raised.ticket, raised.urgency = ticket, to
	q.lines[to].push(queuedTask{raised, ticket})
}

// pop takes the task whose turn it is. The queue must not be empty.
func (q *taskQueue) pop() *task {
	first, oldest := -1, -1
	for i := range q.lines {
		line := &q.lines[i]
		for line.len() > 0 && !line.peek().waits() {
			line.pop()
		}
		if line.len() == 0 {
			continue
		}
		if first < 0 {
			first = i
		}
		if oldest < 0 || line.peek().task.queuedAt.Before(q.lines[oldest].peek().task.queuedAt) {
			oldest = i
		}
	}
	if oldest == first {
		q.passed = 0
	} else if q.passed++; q.passed == oldestTurn {
		q.passed, first = 0, oldest
	}
	return q.take(first)
}

// hasAsked reports whether an object that a client added or changed is queued. Its line has no stale entries, because
// no other one is more urgent.
func (q *taskQueue) hasAsked() bool { return q.lines[asked].len() > 0 }

// popAsked takes the first object that a client added or changed. There must be one.
func (q *taskQueue) popAsked() *task { return q.take(int(asked)) }

// take takes the first task of a line.
func (q *taskQueue) take(line int) *task {
	next := q.lines[line].pop().task
	if q.queued--; q.queued == 0 {
		for i := range q.lines { // Stale entries may be left.
			q.lines[i].clear()
		}
	}
	return next
}
