package operators

import (
	"errors"
	"time"

	"github.com/bellerophon-io/bellerophon/streams"
)

// Outcome is how an attempt ended. Its values are the values of the label result of
// controller_runtime_reconcile_total, and "terminal".
type Outcome string

// The outcomes of an attempt.
const (
	Succeeded Outcome = "success"
	Requeued  Outcome = "requeue_after" // a success that asked for another attempt
	Failed    Outcome = "error"         // another attempt follows after a backoff
	Ended     Outcome = "terminal"      // a failure that is not repeated: only an event leads to another attempt
)

// outcomeOf returns the outcome of an attempt.
func outcomeOf(result *Result) Outcome {
	if result.Err == nil {
		if result.RequeueAfter > 0 {
			return Requeued
		}
		return Succeeded
	}
	if IsTerminal(result.Err) {
		return Ended
	}
	return Failed
}

// Result describes one attempt.
type Result struct {
	Request
	Outcome      Outcome
	Attempt      int           // 1, or one more than the number of failures in a row before it
	Queued       time.Duration // from ready to run until started
	Started      time.Time
	Duration     time.Duration
	Writes       []Write       // in the order in which the API server answered
	Calls        []Call        // the first 32, in the same order, if the client records them
	Reads        []Read        // the first 16 reads of the cache, if the client records them
	ReadsLeftOut int           // the number of the further ones
	RequeueAfter time.Duration // when the next attempt is due if no event comes; 0: not at all
	Err          error
}

// Write is a write to the API server that succeeded.
type Write struct {
	Verb            string // create, patch, ...
	Key             streams.Key
	ResourceVersion string // of the object as written; empty after a deletion

	// Exclusive reports whether the resource version is certainly of this write. It is after a creation,
	// and after a write that is conditional on another version. Any other write may change nothing;
	// its answer then has the version of an earlier write, perhaps by another client.
	Exclusive bool

	Asked    time.Time // when the request was sent; zero if the client does not say
	Answered time.Time // when the API server had answered; RecordWrite sets it
}

// Call is a request to the API server, of any kind, also one that failed.
type Call struct {
	Method string // of HTTP
	Path   string // of the URL, without its query
	Code   int    // of the answer; 0 if there was none
	Sent   time.Time
	Took   time.Duration // until the answer began
}

// Read is a read of the cache: of one object, or of all that a list selects.
type Read struct {
	Key             streams.Key // without a name if it is a list, and without a namespace if that is of several ones
	ResourceVersion string      // of the object; empty for a list
	Objects         int         // how many were found; 0 or 1 if it is not a list
}

// Terminal marks an error that another attempt cannot fix; only a change can. It returns nil for
// nil.
func Terminal(err error) error {
	if err == nil {
		return nil
	}
	return &terminalError{err}
}

// IsTerminal reports whether an error was marked by [Terminal], or wraps one that was.
func IsTerminal(err error) bool {
	var terminal *terminalError
	return errors.As(err, &terminal)
}

type terminalError struct{ err error }

func (e *terminalError) Error() string { return e.err.Error() }
func (e *terminalError) Unwrap() error { return e.err }
