package operators

import (
	"errors"
	"time"

	"github.com/bellerophon-io/bellerophon/streams"
)

// Outcome says how an attempt ended. Its values are those of the result label of
// controller_runtime_reconcile_total, and "terminal".
type Outcome string

// The outcomes.
const (
	Succeeded Outcome = "success"
	Requeued  Outcome = "requeue_after" // a success that asked for another attempt
	Failed    Outcome = "error"         // another attempt follows after a backoff
	Ended     Outcome = "terminal"      // a failure that only an event can change
)

func outcomeOf(result *Result) Outcome {
	if result.Err == nil {
		if result.RequeueAfter > 0 {
			return Requeued
		}
		return Succeeded
	}
	var terminal *terminalError
	if errors.As(result.Err, &terminal) {
		return Ended
	}
	return Failed
}

// Result tells of one attempt.
type Result struct {
	Request
	Outcome      Outcome
	Attempt      int           // 1, or one more than the failures in a row before it
	Queued       time.Duration // from being ready to run to running
	Started      time.Time
	Duration     time.Duration
	Writes       []Write       // in the order in which the API server answered
	RequeueAfter time.Duration // when the next attempt is due without an event; 0: not at all
	Err          error
}

// Write is a write to the API server that succeeded.
type Write struct {
	Verb            string // create, patch, ...
	Key             streams.Key
	ResourceVersion string // of what was written; empty after a deletion

	// Sole says that the resource version is that of this write and no other: of a
	// creation, or of a write on condition of another version. The answer to any other write
	// may be what somebody else has written, if the write changed nothing.
	Sole bool
}

// Terminal marks an error that another attempt cannot mend; only a change can. Nil
// stays nil.
func Terminal(err error) error {
	if err == nil {
		return nil
	}
	return &terminalError{err}
}

type terminalError struct{ err error }

func (e *terminalError) Error() string { return e.err.Error() }
func (e *terminalError) Unwrap() error { return e.err }
