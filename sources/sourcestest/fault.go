package sourcestest

import (
	"fmt"
	"net/http"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

// Action is the kind of a fault.
type Action int

// The faults. Drop to Expire are faults of an event on a watch. They affect only that watch: other
// watches, including later ones of the same client, may get the event. The others are faults of a
// request.
const (
	// Drop omits the event, and the watch continues. A client that resumes after the event never
	// receives it; only its next list shows the missed change.
	Drop Action = iota + 1
	// Duplicate sends the event twice.
	Duplicate
	// Delay sends the event, and the events after it, after a time.
	Delay
	// Reorder sends the event after the next one, if that is about another object and comes in
	// time. Bookmarks do not overtake the event. If the watch ends before, the next watch of a
	// client that resumes sends the event.
	Reorder
	// Cut ends the watch in the middle of the event, as a broken connection does.
	Cut
	// End ends the watch before the event, as a server that shuts down does.
	End
	// Expire sends an error of code 410 instead of the event, and ends the watch.
	Expire

	// Refuse answers with a failure, and the server does nothing.
	Refuse
	// Disconnect refuses the connection, and the server does nothing.
	Disconnect
	// Slow answers after a time.
	Slow
	// LoseAnswer handles the request, and breaks the connection before the answer.
	LoseAnswer

	// The actions below are not in DefaultRates. They come after the others, so that existing seeds
	// draw the same faults.

	// Hang accepts the request and never answers it: the request ends with its context.
	Hang
	// Answer responds to any request with code 200 and Body, and the server does nothing.
	Answer

	// Silence stops the watch before the event. No events or bookmarks follow, and no end at
	// timeoutSeconds. It is a fault of events.
	Silence
	// Fail sends an ERROR event with Code instead of the event, and ends the watch. It is a fault
	// of events.
	Fail
)

var actionNames = [...]string{
	Drop: "Drop", Duplicate: "Duplicate", Delay: "Delay", Reorder: "Reorder", Cut: "Cut", End: "End", Expire: "Expire",
	Refuse: "Refuse", Disconnect: "Disconnect", Slow: "Slow", LoseAnswer: "LoseAnswer",
	Hang: "Hang", Answer: "Answer", Silence: "Silence", Fail: "Fail",
}

func (a Action) String() string {
	if !a.known() {
		return fmt.Sprintf("Action(%d)", int(a))
	}
	return actionNames[a]
}

func (a Action) known() bool { return a >= Drop && a <= Fail }

// ofEvent reports whether the action is a fault of events, not of requests.
func (a Action) ofEvent() bool { return a < Refuse || a >= Silence }

// Always is the value of Times for a fault that never ends.
const Always = -1

// DefaultWait is the default wait of Delay, Reorder and Slow.
const DefaultWait = time.Second

// Fault describes a fault and the occasions on which it happens. Empty fields match everything.
// Each fault counts its own matches. If several faults are due at once, the first one of the script
// happens, and the others wait for their next match.
type Fault struct {
	Action Action

	Resource  string // the plural, such as "configmaps"
	Namespace string // of the object, or in the request's path
	Name      string // of the object, or in the path: lists, watches and creations have none

	// Type is the type of the event: ADDED, MODIFIED, DELETED or BOOKMARK. Bookmarks match only if
	// Type is BOOKMARK. A streamed list consists of ADDED events.
	Type watch.EventType
	// Verb is the verb of the request: get, list, watch, create, update, patch, delete or
	// deletecollection.
	Verb string

	Nth   int // the first match on which it happens; default 1
	Times int // the number of matches on which it happens; default 1, or Always

	For        time.Duration // the wait of Delay and Slow, and the longest wait of Reorder; default DefaultWait
	WithinKey  bool          // for Reorder: also after an event of the same object, which no correct server does
	Code       int           // for Refuse and Fail: the HTTP status, 400 to 599; default 503 and 500
	RetryAfter time.Duration // for Refuse: in whole seconds; default 1 s for code 429, else none

	Body        string // for Answer; may be empty
	ContentType string // for Answer; default application/json
}

var (
	verbs      = []string{"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"}
	eventTypes = []watch.EventType{watch.Added, watch.Modified, watch.Deleted, watch.Bookmark}
)

// withDefaults validates a fault and sets the defaults of its empty fields.
func (f Fault) withDefaults() (Fault, error) {
	waits := f.Action == Delay || f.Action == Reorder || f.Action == Slow
	wrong := func(format string, details ...any) (Fault, error) {
		return f, fmt.Errorf("%v: "+format, append([]any{f.Action}, details...)...)
	}
	switch {
	case !f.Action.known():
		return wrong("Action is unknown; give a constant of the package, such as Drop")
	case f.Action.ofEvent() && f.Verb != "":
		return wrong("Verb is %q, but this is a fault of events; leave it empty, or give a Type", f.Verb)
	case !f.Action.ofEvent() && f.Type != "":
		return wrong("Type is %q, but this is a fault of requests; leave it empty, or give a Verb", f.Type)
	case f.Verb != "" && !slices.Contains(verbs, f.Verb):
		return wrong("Verb is %q; allowed is one of %q", f.Verb, verbs)
	case f.Type != "" && !slices.Contains(eventTypes, f.Type):
		return wrong("Type is %q; allowed is one of %q", f.Type, eventTypes)
	case f.Nth < 0:
		return wrong("Nth is %d; allowed is 1 and above", f.Nth)
	case f.Times < Always:
		return wrong("Times is %d; allowed is 1 and above, or Always", f.Times)
	case f.For < 0:
		return wrong("For is %v; allowed is above 0", f.For)
	case f.For > 0 && !waits:
		return wrong("For is %v; it is allowed for Delay, Reorder and Slow only", f.For)
	case f.WithinKey && f.Action != Reorder:
		return wrong("WithinKey is allowed for Reorder only")
	case f.Action != Refuse && f.Action != Fail && f.Code != 0:
		return wrong("Code is allowed for Refuse and Fail only")
	case f.Action != Refuse && f.RetryAfter != 0:
		return wrong("RetryAfter is allowed for Refuse only")
	case f.Action != Answer && (f.Body != "" || f.ContentType != ""):
		return wrong("Body and ContentType are allowed for Answer only")
	case f.Code != 0 && (f.Code < 400 || f.Code > 599):
		return wrong("Code is %d; allowed is 400 to 599", f.Code)
	case f.RetryAfter < 0 || f.RetryAfter%time.Second != 0:
		return wrong("RetryAfter is %v; allowed are whole seconds", f.RetryAfter)
	}
	f.Nth, f.Times = max(f.Nth, 1), either(f.Times, 1)
	if waits {
		f.For = either(f.For, DefaultWait)
	}
	switch f.Action {
	case Refuse:
		f.Code = either(f.Code, http.StatusServiceUnavailable)
		if f.Code == http.StatusTooManyRequests {
			f.RetryAfter = either(f.RetryAfter, time.Second)
		}
	case Fail:
		f.Code = either(f.Code, http.StatusInternalServerError)
	case Answer:
		f.ContentType = either(f.ContentType, runtime.ContentTypeJSON)
	}
	return f, nil
}

// either returns value, or otherwise if value is the zero value.
func either[T comparable](value, otherwise T) T {
	if value == *new(T) {
		return otherwise
	}
	return value
}
