package operators

import (
	"container/heap"
	"time"

	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/streams"
)

// mends reports whether a change of an object may be what its reconciler waits for after failures:
// the object is new, or its desired state has changed. For kinds without a generation every change
// counts, because a change of the status looks the same.
func mends(change *streams.Change) bool {
	before, after := change.Old, change.New
	switch {
	case change.Type == streams.Unchanged || after == nil:
		return false
	case before == nil || before.GetUID() != after.GetUID():
		return true
	}
	return before.GetGeneration() != after.GetGeneration() || after.GetGeneration() == 0
}

// ownWritesRemembered bounds the remembered writes of a streak of failures whose events may still
// come.
const ownWritesRemembered = 64

// failureStreak describes the attempts for one object that failed one after another.
type failureStreak struct {
	ended time.Time // when the last attempt ended
	wrote []echo    // writes of the attempts to the object itself, oldest first
	mends int       // how often a mended object has cut the backoff short
}

// add adds a failed attempt.
func (r *failureStreak) add(result *Result, now time.Time) {
	r.ended = now
	for _, write := range result.Writes {
		if write.Key.NamespacedName == result.NamespacedName {
			r.wrote = append(r.wrote, echo{write.Key, write.ResourceVersion})
		}
	}
	if excess := len(r.wrote) - ownWritesRemembered; excess > 0 {
		r.wrote = append(r.wrote[:0], r.wrote[excess:]...)
	}
}

// isOwn reports whether all causes are writes of the attempts themselves, which mend nothing.
// Causes that were left out are assumed to be like the others.
func (r *failureStreak) isOwn(causes []streams.Cause) bool {
	own := 0
	for _, cause := range causes {
		if cause.Type == 0 {
			continue
		}
		if !r.has(echo{cause.Key, cause.ResourceVersion}) {
			return false
		}
		own++
	}
	return own > 0
}

// has reports whether a write is among the remembered ones.
func (r *failureStreak) has(write echo) bool {
	for i := range r.wrote {
		if r.wrote[i] == write {
			return true
		}
	}
	return false
}

// delayOf returns how long a task waits after a number of failures in a row, which is 1 or more.
func (s *schedule) delayOf(of *task, failures int) time.Duration {
	own := of.queue.controller
	if own != nil && own.Delay != nil {
		var delay time.Duration
		if lifecycle.Guard(func() error { delay = own.Delay(of.request.NamespacedName, failures); return nil }) == nil {
			return min(max(delay, 0), longestDelay)
		}
	}
	if own != nil && own.Backoff != (Backoff{}) {
		return own.Backoff.delay(failures)
	}
	return s.backoff.delay(failures)
}

// longestDelay bounds what Controller.Delay returns.
const longestDelay = 24 * time.Hour

// backOff makes a failed task wait for its backoff. later holds the requests that came during the
// attempt, or is nil.
func (s *schedule) backOff(failed *task, result *Result, later *laterRequest, now time.Time) {
	if failed.streak == nil {
		failed.streak = &failureStreak{}
	}
	failed.failures++
	failed.streak.add(result, now)
	mended := later != nil && later.SpecChanged && !failed.streak.isOwn(later.mended)
	failed.request = result.Request // The next attempt is for these causes too.
	if later != nil {
		failed.request = joined(failed.request, later.Request)
	}
	failed.request.SpecChanged, failed.request.Routine = mended, false
	result.RequeueAfter = s.delayOf(failed, failed.failures)
	s.delay(failed, stateBackoff, now, now.Add(result.RequeueAfter))
	s.unfinished.backsOff(failed.unfinished, failed.due)
	if mended {
		s.shortenBackoff(failed, later.Received, now)
	}
}

// shortenBackoff cuts the backoff of a task short, because its object was mended. For the first
// time in a streak of failures the next attempt is due at once. After that it is due after a
// separate backoff, which grows like any other. So attempts that cause such changes do not follow
// each other without a pause.
func (s *schedule) shortenBackoff(mended *task, received, now time.Time) {
	due := now
	if mended.streak.mends > 0 {
		due = mended.streak.ended.Add(s.delayOf(mended, mended.streak.mends))
	}
	if !due.Before(mended.due) {
		return
	}
	mended.streak.mends++
	s.unfinished.backsOff(mended.unfinished, due)
	if due.After(now) {
		mended.due = due
		heap.Fix(&s.delays, mended.position)
		return
	}
	heap.Remove(&s.delays, mended.position)
	mended.request.Received = received
	s.enqueue(mended, now) // First, as in accept.
	s.endDelay(mended)
}

// resetFailures forgets the failures of a task.
func (t *task) resetFailures() { t.failures, t.streak = 0, nil }
