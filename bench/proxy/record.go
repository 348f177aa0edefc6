package proxy

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"
)

// Call is one request of a contender.
type Call struct {
	At          time.Time `json:"at"`  // when its head had arrived
	End         time.Time `json:"end"` // when its answer had been passed on
	Verb        string    `json:"verb"`
	Group       string    `json:"group,omitempty"`
	Resource    string    `json:"resource,omitempty"`
	Subresource string    `json:"subresource,omitempty"`
	Namespace   string    `json:"namespace,omitempty"`
	Name        string    `json:"name,omitempty"` // or the path, if the request is not about a resource
	Code        int       `json:"code,omitempty"` // 0 if there was no answer
	In          int64     `json:"in,omitempty"`   // bytes of the request's body
	Out         int64     `json:"out,omitempty"`  // bytes of the answer's body
	Version     uint64    `json:"version,omitempty"`
	Needless    bool      `json:"needless,omitempty"` // a write that changed nothing
	Lists       bool      `json:"lists,omitempty"`    // a list, without its later pages, or a watch that begins with one
}

// IsWatch reports whether the call opened a watch. The bytes of a watch are counted with its
// events.
func (c Call) IsWatch() bool { return c.Verb == "watch" }

// IsRead reports whether the call requested an object or a list.
func (c Call) IsRead() bool {
	return c.Resource != "" && !isAside(c) && (c.Verb == "get" || c.Verb == "list")
}

// IsWrite reports whether the call changed something or tried to. Calls about Events and leases are
// not writes, and neither are reviews, which ask a question by POST.
func (c Call) IsWrite() bool {
	switch c.Verb {
	case "get", "list", "watch", "":
		return false
	}
	return !isAside(c)
}

// IsCompared reports whether the call is part of the comparison: a call about a resource other than
// Events, leases and reviews.
func (c Call) IsCompared() bool { return c.Verb != "" && !isAside(c) }

func isAside(c Call) bool { return isLeftOut(c.Group, c.Resource) }

// isLeftOut reports whether the contract does not compare calls and events about a resource.
func isLeftOut(group, resource string) bool {
	return resource == "events" || group == "coordination.k8s.io" || group == "authorization.k8s.io" || group == "authentication.k8s.io"
}

// Event is one event of a watch.
type Event struct {
	At         time.Time `json:"at"`
	Type       string    `json:"type"` // ADDED, MODIFIED, DELETED, BOOKMARK or ERROR
	Group      string    `json:"group,omitempty"`
	Resource   string    `json:"resource"`
	Namespace  string    `json:"namespace,omitempty"`
	Name       string    `json:"name,omitempty"`
	Version    uint64    `json:"version,omitempty"`
	Generation int64     `json:"generation,omitempty"`
	Bytes      int64     `json:"bytes"`
}

// IsCompared reports whether the event is part of the comparison: an event about a resource other than Events and
// Leases.
func (e Event) IsCompared() bool { return !isLeftOut(e.Group, e.Resource) }

// Record holds the traffic that passed through a proxy.
type Record struct {
	Calls  []Call // in the order in which they ended
	Open   []Call // open watches, in the order in which they arrived
	Events []Event
}

// Counts holds how many compared writes and how many watch events have passed.
type Counts struct {
	Writes int // writes that are over, including failed ones
	Events int // compared watch events without bookmarks
}

// recorder collects a Record.
type recorder struct {
	mu      sync.Mutex
	record  Record
	counts  Counts
	highest uint64    // the highest resource version seen so far
	active  int       // calls in flight, without watches
	last    time.Time // when a call last began or ended, or an event arrived
}

func newRecorder() *recorder { return &recorder{last: time.Now()} }

// begin records that a call arrived, and returns the highest version before it.
func (r *recorder) begin(c Call) uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c.IsWatch() {
		r.record.Open = append(r.record.Open, c)
	} else {
		r.active++
	}
	r.touch(c, c.At)
	return r.highest
}

// end records that a call is over.
func (r *recorder) end(c Call) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c.IsWatch() {
		r.closed(c)
	} else {
		r.active--
		r.touch(c, c.End)
	}
	r.highest = max(r.highest, c.Version)
	r.record.Calls = append(r.record.Calls, c)
	if c.IsWrite() {
		r.counts.Writes++
	}
}

// closed removes a watch from the open ones. Its caller holds the lock.
func (r *recorder) closed(c Call) {
	at := slices.IndexFunc(r.record.Open, func(o Call) bool {
		return o.At.Equal(c.At) && o.Group == c.Group && o.Resource == c.Resource && o.Namespace == c.Namespace && o.Name == c.Name
	})
	if at >= 0 {
		r.record.Open = slices.Delete(r.record.Open, at, at+1)
	}
}

// touch records when the contender was last active. Its caller holds the lock.
func (r *recorder) touch(c Call, at time.Time) {
	if !isAside(c) {
		r.last = at
	}
}

func (r *recorder) events(passed []Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, event := range passed {
		r.highest = max(r.highest, event.Version)
		if event.Type != "BOOKMARK" && event.IsCompared() {
			r.last = event.At
			r.counts.Events++
		}
	}
	r.record.Events = append(r.record.Events, passed...)
}

func (r *recorder) saw(version uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.highest = max(r.highest, version)
}

// idleSince returns when the contender last did or received something, or the current time while
// a call is in flight.
func (r *recorder) idleSince() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.active > 0 {
		return time.Now()
	}
	return r.last
}

func (r *recorder) watches(resource string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.ContainsFunc(r.record.Open, func(c Call) bool { return c.Resource == resource })
}

func (r *recorder) counted() Counts {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.counts
}

// snapshot returns the record so far.
func (r *recorder) snapshot() Record {
	r.mu.Lock()
	defer r.mu.Unlock()
	return Record{Calls: slices.Clip(r.record.Calls), Open: slices.Clone(r.record.Open), Events: slices.Clip(r.record.Events)}
}

// line is one line of a record's file. Exactly one of its fields is set.
type line struct {
	Call  *Call  `json:"call,omitempty"`
	Event *Event `json:"event,omitempty"`
}

// WriteFile writes the record as lines of JSON, first the calls and then the events. Open watches
// are left out.
func (r Record) WriteFile(path string) (err error) {
	file, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("writing the proxy's record: %w", err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	buffer := bufio.NewWriter(file)
	encoder := json.NewEncoder(buffer)
	for i := range r.Calls {
		if err := encoder.Encode(line{Call: &r.Calls[i]}); err != nil {
			return fmt.Errorf("writing the proxy's record to %s: %w", path, err)
		}
	}
	for i := range r.Events {
		if err := encoder.Encode(line{Event: &r.Events[i]}); err != nil {
			return fmt.Errorf("writing the proxy's record to %s: %w", path, err)
		}
	}
	if err := buffer.Flush(); err != nil {
		return fmt.Errorf("writing the proxy's record to %s: %w", path, err)
	}
	return nil
}
