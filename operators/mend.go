package operators

import (
	"container/heap"
	"time"

	"github.com/bellerophon-io/bellerophon/streams"
)

// mends reports whether a change of an object may be what its reconciler waits for after
// failures: the object is new, or what it asks for has changed. Kinds without a generation do
// not tell that from a change of their status.
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

// ownWritesRemembered bounds the writes of a row of failures whose events may still come.
const ownWritesRemembered = 64

// row is what is known of attempts for one object that failed one after another.
type row struct {
	ended time.Time // the last of them
	wrote []echo    // what they wrote of the object itself, oldest first
	mends int       // how often a mended object has cut their backoff short
}

// add adds an attempt that failed.
func (r *row) add(result *Result, now time.Time) {
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

// isOwn reports whether causes are nothing but writes of the attempts themselves, which mend
// nothing. Causes that were left out are taken for what the others are.
func (r *row) isOwn(causes []streams.Cause) bool {
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

func (r *row) has(write echo) bool {
	for i := range r.wrote {
		if r.wrote[i] == write {
			return true
		}
	}
	return false
}

// fail has a task back off. Later are the requests that came during the attempt.
func (s *schedule) fail(failed *task, result *Result, later Request, now time.Time) {
	if failed.row == nil {
		failed.row = &row{}
	}
	failed.failures++
	failed.row.add(result, now)
	mended := later.Mended && !failed.row.isOwn(failed.mended)
	failed.request = joined(result.Request, later) // The next attempt is for these causes too.
	failed.request.Mended = mended
	result.RequeueAfter = s.backoff.delay(failed.failures)
	s.delay(failed, stateBackoff, now, now.Add(result.RequeueAfter))
	if mended {
		s.mend(failed, later.Received, now)
	}
}

// mend cuts the backoff of a task short, as its object was mended: the first time in a row of
// failures the next attempt is due at once. After that it is due after a backoff of its own,
// which grows as any, so that no attempts that lead to such changes follow each other without
// a pause.
func (s *schedule) mend(mended *task, received, now time.Time) {
	due := now
	if mended.row.mends > 0 {
		due = mended.row.ended.Add(s.backoff.delay(mended.row.mends))
	}
	if !due.Before(mended.due) {
		return
	}
	mended.row.mends++
	if due.After(now) {
		mended.due = due
		heap.Fix(&s.delays, mended.position)
		return
	}
	heap.Remove(&s.delays, mended.position)
	mended.request.Received = received
	s.enqueue(mended, now) // First, as in add.
	s.awaken(mended)
}

// calm forgets the failures of a task.
func (t *task) calm() { t.failures, t.row = 0, nil }
