package sourcestest

import (
	"fmt"
	"net/http"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

// Action is what goes wrong.
type Action int

// What goes wrong with an event on a watch. It concerns that one watch: others, and those
// that the client opens later, may get the event.
const (
	// Drop leaves the event out, and the watch goes on. A client that resumes behind the
	// event never learns of it; its next list shows the truth.
	Drop Action = iota + 1
	// Duplicate sends the event twice.
	Duplicate
	// Delay sends the event after a time, and what follows it after it.
	Delay
	// Reorder sends the event after the one that follows it, if that is of another object
	// and comes in time. Bookmarks do not overtake it. If the watch ends before, the event is
	// left to the one with which the client resumes.
	Reorder
	// Cut ends the watch in the middle of the event, as a connection that breaks.
	Cut
	// End ends the watch before the event, as a server that shuts down does.
	End
	// Expire sends an error of code 410 instead of the event, and ends the watch.
	Expire

	// What goes wrong with a request.

	// Refuse answers with a failure, and nothing is done.
	Refuse
	// Disconnect refuses the connection, and nothing is done.
	Disconnect
	// Slow answers after a time.
	Slow
	// LoseAnswer does what is asked for, and breaks the connection before the answer.
	LoseAnswer

	// The actions below are outside DefaultRates. They stand behind the others, so that seeds
	// keep their meaning.

	// Hang takes the request and never answers it: the request ends with its context.
	Hang
	// Answer answers with code 200 and with Body, whatever was asked for, and nothing is done.
	Answer

	// Silence stops the watch before the event: neither events nor bookmarks follow, nor the
	// end that timeoutSeconds asked for. A fault of events.
	Silence
	// Fail sends an ERROR event of Code instead of the event, and ends the watch. A fault of
	// events.
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

// Always is the Times of a fault that is never over.
const Always = -1

// DefaultWait is how long Delay, Reorder and Slow wait where nothing else is said.
const DefaultWait = time.Second

// Fault is one thing that goes wrong, and when. Fields that are empty match all. Each fault
// counts what it matches by itself. Of those that are due at once the first of the script
// happens, and the others have their turn at the next match.
type Fault struct {
	Action Action

	Resource  string // the plural, such as "configmaps"
	Namespace string // of the object, or of the request's path
	Name      string // of the object, or of the path: lists, watches and creations have none

	// Type is that of the event: ADDED, MODIFIED, DELETED or BOOKMARK. Bookmarks match only
	// if it says so. A list that is streamed consists of ADDED events.
	Type watch.EventType
	// Verb is that of the request: get, list, watch, create, update, patch or delete.
	Verb string

	Nth   int // the match with which it begins; default 1
	Times int // how many matches; default 1, or Always

	For        time.Duration // of Delay, Slow, and at most of Reorder; default DefaultWait
	WithinKey  bool          // of Reorder: also after an event of the same object, as no good server does
	Code       int           // of Refuse and Fail: the HTTP status, 400 to 599; default 503 and 500
	RetryAfter time.Duration // of Refuse: in whole seconds; default 1 s for code 429, else none

	Body        string // of Answer; may be empty
	ContentType string // of Answer; default application/json
}

var (
	verbs      = []string{"get", "list", "watch", "create", "update", "patch", "delete"}
	eventTypes = []watch.EventType{watch.Added, watch.Modified, watch.Deleted, watch.Bookmark}
)

// withDefaults checks a fault and fills in what it leaves open.
func (f Fault) withDefaults() (Fault, error) {
	waits := f.Action == Delay || f.Action == Reorder || f.Action == Slow
	wrong := func(format string, details ...any) (Fault, error) {
		return f, fmt.Errorf("%v: "+format, append([]any{f.Action}, details...)...)
	}
	switch {
	case !f.Action.known():
		return wrong("Action is none of the package's; name one, such as Drop")
	case f.Action.ofEvent() && f.Verb != "":
		return wrong("Verb is %q, but this is a fault of events; leave it empty, or name a Type", f.Verb)
	case !f.Action.ofEvent() && f.Type != "":
		return wrong("Type is %q, but this is a fault of requests; leave it empty, or name a Verb", f.Type)
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
		return wrong("For is %v; it is of Delay, Reorder and Slow only", f.For)
	case f.WithinKey && f.Action != Reorder:
		return wrong("WithinKey is of Reorder only")
	case f.Action != Refuse && f.Action != Fail && f.Code != 0:
		return wrong("Code is of Refuse and Fail only")
	case f.Action != Refuse && f.RetryAfter != 0:
		return wrong("RetryAfter is of Refuse only")
	case f.Action != Answer && (f.Body != "" || f.ContentType != ""):
		return wrong("Body and ContentType are of Answer only")
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

// either is a value, or what stands for it where it is left open.
func either[T comparable](value, otherwise T) T {
	if value == *new(T) {
		return otherwise
	}
	return value
}
