package history

import (
	"time"

	"github.com/bellerophon-io/bellerophon/cache"
)

// Answer is the answer of /debug/why: what a manager remembers of an object.
type Answer struct {
	Time        time.Time    `json:"time"`
	Controllers []Controller `json:"controllers"` // that reconcile the object
}

// Controller is what a controller has done for an object.
type Controller struct {
	Name    string      `json:"name"`
	Kind    string      `json:"kind"`
	Cached  bool        `json:"cached"`            // whether the cache has the object
	Level   cache.Level `json:"level"`             // of the controller's kinds
	Missing []string    `json:"missing,omitempty"` // what the next level waits for

	RunningSince *time.Time `json:"runningSince,omitempty"` // an attempt runs
	Attempts     []Attempt  `json:"attempts"`               // that have ended, oldest first
}

// Attempt is an attempt to reconcile an object, and what led to it. Durations are in seconds.
type Attempt struct {
	ID         string    `json:"id"` // the reconcileID of logs
	Controller string    `json:"controller"`
	Namespace  string    `json:"namespace,omitempty"`
	Name       string    `json:"name"`
	Attempt    int       `json:"attempt"` // 1, or one more than the number of failures in a row before it
	Causes     []Cause   `json:"causes"`  // oldest first; empty for a retry or a timer
	LeftOut    bool      `json:"olderCausesLeftOut,omitempty"`
	Waits      []Wait    `json:"waits"` // in order; waits of less than a millisecond are left out
	Started    time.Time `json:"started"`
	Seconds    float64   `json:"seconds"`
	Writes     []Write   `json:"writes"`                 // that succeeded, in the order of the answers
	Calls      []Call    `json:"calls"`                  // the first 32 requests to the API server, also reads and failures, in the same order
	Reads      []Read    `json:"reads"`                  // the first 16 reads of the cache, in their order
	Unread     int       `json:"furtherReads,omitempty"` // the number of the others
	Outcome    string    `json:"outcome"`
	Error      string    `json:"error,omitempty"`
	Again      float64   `json:"againAfterSeconds,omitempty"` // when the next attempt is due without an event
}

// Object names an object and one of its versions.
type Object struct {
	Kind            string `json:"kind"` // with its group, such as StatefulSet.apps
	Namespace       string `json:"namespace,omitempty"`
	Name            string `json:"name"`
	ResourceVersion string `json:"resourceVersion,omitempty"`
}

// Cause is an event that led to an attempt.
type Cause struct {
	Object
	Event    string    `json:"event"` // Applied, Deleted, Listed
	Received time.Time `json:"received"`

	// Change and Fields say what the event changed in the cache: added, updated, removed or unchanged. They are
	// missing if that is no longer known. An event that the debounce has joined with a later one has the change
	// of that one.
	Change string   `json:"change,omitempty"`
	Fields []string `json:"fields,omitempty"` // the paths that changed, of an update

	// Partial reports whether the cache keeps a part of the object alone, such as a projection: changes of the
	// rest have no paths.
	Partial bool `json:"partial,omitempty"`

	// Managers are the field managers that the update names anew, or with another time or other fields. They are known
	// if the cache keeps the managed fields of the kind: with controller.Transform, which can return the whole object.
	Managers []Manager `json:"managers,omitempty"`

	WrittenBy string `json:"writtenBy,omitempty"` // the ID of the attempt that wrote this version, and its controller
}

// Manager is a field manager of an object.
type Manager struct {
	Name      string    `json:"name"`
	Operation string    `json:"operation"` // Apply or Update
	Time      time.Time `json:"time"`      // in whole seconds
}

// The waits of an attempt.
const (
	WaitDebounce = "debounce" // the events of a busy object are joined; also the time in stages before the cache
	WaitRunning  = "running"  // the attempt before it ran
	WaitBackoff  = "backoff"  // after a failure
	WaitGate     = "gate"     // the kinds of the controller were not current
	WaitQueue    = "queue"    // all workers were busy
)

// Wait is a time in which an attempt waited.
type Wait struct {
	For     string  `json:"for"`
	Seconds float64 `json:"seconds"`
}

// Write is a write that succeeded.
type Write struct {
	Object
	Verb     string     `json:"verb"`
	Answered time.Time  `json:"answered"`
	Seconds  float64    `json:"seconds,omitempty"` // until the answer
	Fields   []string   `json:"fields,omitempty"`  // the paths that it changed, if the cache has shown it
	Seen     *time.Time `json:"seen,omitempty"`    // when the cache had received it from the watch
}

// Read is a read of the cache. A list has no name, and a namespace if it is of one.
type Read struct {
	Object
	Objects int `json:"objects"` // how many were found; of one object, 0 or 1
}

// Call is a request to the API server.
type Call struct {
	Method  string  `json:"method"`
	Path    string  `json:"path"`
	Code    int     `json:"code,omitempty"` // of the answer; missing if there was none
	Seconds float64 `json:"seconds"`        // until the answer began
}
