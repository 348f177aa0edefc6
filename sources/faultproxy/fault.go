package faultproxy

import (
	"fmt"
	"net/http"
	"slices"
	"time"
)

// Action is the failure of a request.
type Action int

const (
	// Hang accepts the request, forwards nothing and never answers.
	Hang Action = iota + 1
	// Refuse answers with Code and a Status, and forwards nothing.
	Refuse
	// Answer responds with code 200 and Body, and forwards nothing.
	Answer
	// Disconnect resets the client's connection, with all requests on it, and forwards nothing.
	Disconnect
	// Slow forwards the request after the time in For.
	Slow
	// LoseAnswer forwards the request and waits for its answer. It then resets the stream instead
	// of forwarding the answer.
	LoseAnswer
	// Cut resets the stream after Bytes of the answer's body, which may be within a frame. If Bytes
	// is 0, the client may get no answer at all.
	Cut
	// Stall forwards Bytes of the answer's body, and then nothing: neither data nor an end. Other
	// streams of the connection are not affected, so pings succeed.
	Stall
	// GoAway answers the request and closes the client's connection gracefully: open streams
	// continue, and the next request needs a new connection.
	GoAway
)

var actionNames = [...]string{
	Hang: "Hang", Refuse: "Refuse", Answer: "Answer", Disconnect: "Disconnect", Slow: "Slow",
	LoseAnswer: "LoseAnswer", Cut: "Cut", Stall: "Stall", GoAway: "GoAway",
}

// String returns the name of the action.
func (a Action) String() string {
	if !a.known() {
		return fmt.Sprintf("Action(%d)", int(a))
	}
	return actionNames[a]
}

func (a Action) known() bool { return a >= Hang && a <= GoAway }

// Always is the value of Times for a fault that never ends.
const Always = -1

// Match selects requests. Empty fields match everything.
type Match struct {
	// Verb is get, list, watch, create, update, patch, delete or deletecollection.
	Verb      string
	Resource  string // the plural, such as "configmaps"
	Namespace string // in the path; lists of all namespaces have none
	Name      string // in the path; lists, watches and creations have none
}

func (m Match) matches(request Match) bool {
	return (m.Verb == "" || m.Verb == request.Verb) && (m.Resource == "" || m.Resource == request.Resource) &&
		(m.Namespace == "" || m.Namespace == request.Namespace) && (m.Name == "" || m.Name == request.Name)
}

var verbs = []string{"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"}

// Fault describes a failure and the requests to which it applies. Each fault counts its own
// matches. If several faults are due for a request, the first one of the script applies, and the
// others wait for their next match.
type Fault struct {
	Action Action
	Match

	Nth   int // the first match to which it applies; default 1
	Times int // how many matches it applies to; default 1, or Always

	For         time.Duration // for Slow, and required there
	Bytes       int64         // for Cut and Stall: how many bytes of the body pass; default 0
	Code        int           // for Refuse: the HTTP status, 400 to 599; default 503
	RetryAfter  time.Duration // for Refuse: in whole seconds; default none
	Body        string        // for Answer; may be empty
	ContentType string        // for Answer; default application/json
}

// withDefaults validates a fault and fills in its defaults.
func (f Fault) withDefaults() (Fault, error) {
	wrong := func(format string, details ...any) (Fault, error) {
		return f, fmt.Errorf("%v: "+format, append([]any{f.Action}, details...)...)
	}
	switch {
	case !f.Action.known():
		return wrong("Action is unknown; give a constant of the package, such as Hang")
	case f.Verb != "" && !slices.Contains(verbs, f.Verb):
		return wrong("Verb is %q; allowed is one of %q", f.Verb, verbs)
	case f.Nth < 0:
		return wrong("Nth is %d; allowed is 1 and above", f.Nth)
	case f.Times < Always:
		return wrong("Times is %d; allowed is 1 and above, or Always", f.Times)
	case f.Action == Slow && f.For <= 0 || f.Action != Slow && f.For != 0:
		return wrong("For is %v; give Slow a duration above 0, and the other actions none", f.For)
	case f.Bytes < 0 || f.Bytes > 0 && f.Action != Cut && f.Action != Stall:
		return wrong("Bytes is %d; allowed is 0 and above, for Cut and Stall only", f.Bytes)
	case f.Action != Refuse && (f.Code != 0 || f.RetryAfter != 0):
		return wrong("Code and RetryAfter are allowed for Refuse only")
	case f.Code != 0 && (f.Code < 400 || f.Code > 599):
		return wrong("Code is %d; allowed is 400 to 599", f.Code)
	case f.RetryAfter < 0 || f.RetryAfter%time.Second != 0:
		return wrong("RetryAfter is %v; allowed are whole seconds", f.RetryAfter)
	case f.Action != Answer && (f.Body != "" || f.ContentType != ""):
		return wrong("Body and ContentType are allowed for Answer only")
	}
	f.Nth = max(f.Nth, 1)
	if f.Times == 0 {
		f.Times = 1
	}
	if f.Action == Refuse && f.Code == 0 {
		f.Code = http.StatusServiceUnavailable
	}
	if f.Action == Answer && f.ContentType == "" {
		f.ContentType = "application/json"
	}
	return f, nil
}
