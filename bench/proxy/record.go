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
	At          time.Time `json:"at"`  // when its head had come
	End         time.Time `json:"end"` // when its answer had gone
	Verb        string    `json:"verb"`
	Group       string    `json:"group,omitempty"`
	Resource    string    `json:"resource,omitempty"`
	Subresource string    `json:"subresource,omitempty"`
	Namespace   string    `json:"namespace,omitempty"`
	Name        string    `json:"name,omitempty"` // or the path, if it is about no resource
	Code        int       `json:"code,omitempty"` // 0 if there was no answer
	In          int64     `json:"in,omitempty"`   // bytes of the request's body
	Out         int64     `json:"out,omitempty"`  // bytes of the answer's body
	Version     uint64    `json:"version,omitempty"`
	Needless    bool      `json:"needless,omitempty"` // it changed nothing
}

// IsWatch says whether a call opened a watch. Its bytes are those of its events.
func (c Call) IsWatch() bool { return c.Verb == "watch" }

// IsRead says whether a call asked for an object or a list.
func (c Call) IsRead() bool {
	return c.Resource != "" && !isAside(c) && (c.Verb == "get" || c.Verb == "list")
}

// IsWrite says whether a call changed something, or wanted to. Events and leases are left
// out, and questions that are asked by POST.
func (c Call) IsWrite() bool {
	switch c.Verb {
	case "get", "list", "watch", "":
		return false
	}
	return !isAside(c)
}

// IsCompared says whether a call is about a resource that contenders are compared by: Events
// and leases are left out, and questions that are asked by POST.
func (c Call) IsCompared() bool { return c.Verb != "" && !isAside(c) }

// isAside: what the contract does not compare.
func isAside(c Call) bool {
	return c.Resource == "events" || c.Group == "coordination.k8s.io" || c.Group == "authorization.k8s.io" || c.Group == "authentication.k8s.io"
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

// Record is what passed.
type Record struct {
	Calls  []Call // in the order in which they ended
	Open   []Call // watches that are not over, in the order in which they came
	Events []Event
}

// Counts are how much of what contenders are compared by has passed.
type Counts struct {
	Writes int // that were answered, also with an error
	Events int // of watches, bookmarks left out
}

// recorder collects a Record.
type recorder struct {
	mu      sync.Mutex
	record  Record
	counts  Counts
	highest uint64    // version that has passed
	active  int       // calls without an answer, but for watches
	last    time.Time // when a call began or ended, or an event came
}

func newRecorder() *recorder { return &recorder{last: time.Now()} }

// begin notes that a call has come, and returns the highest version before it.
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

// end notes that a call is over.
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

// closed takes a watch off those that are open. Its caller holds the lock.
func (r *recorder) closed(c Call) {
	at := slices.IndexFunc(r.record.Open, func(o Call) bool {
		return o.At.Equal(c.At) && o.Group == c.Group && o.Resource == c.Resource && o.Namespace == c.Namespace && o.Name == c.Name
	})
	if at >= 0 {
		r.record.Open = slices.Delete(r.record.Open, at, at+1)
	}
}

// touch notes that the contender does something. Its caller holds the lock.
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
		if event.Type != "BOOKMARK" {
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

// idleSince is when the contender did something or was told something last, or now if it
// waits for an answer.
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

// snapshot is the record so far.
func (r *recorder) snapshot() Record {
	r.mu.Lock()
	defer r.mu.Unlock()
	return Record{Calls: slices.Clip(r.record.Calls), Open: slices.Clone(r.record.Open), Events: slices.Clip(r.record.Events)}
}

// line is one line of a record's file: one of the two.
type line struct {
	Call  *Call  `json:"call,omitempty"`
	Event *Event `json:"event,omitempty"`
}

// WriteFile writes a record as lines of JSON: first calls, then events. Watches that are not
// over are left out.
func (r Record) WriteFile(path string) (err error) {
	file, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("writing what the proxy saw: %w", err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	buffer := bufio.NewWriter(file)
	encoder := json.NewEncoder(buffer)
	for i := range r.Calls {
		if err := encoder.Encode(line{Call: &r.Calls[i]}); err != nil {
			return fmt.Errorf("writing what the proxy saw to %s: %w", path, err)
		}
	}
	for i := range r.Events {
		if err := encoder.Encode(line{Event: &r.Events[i]}); err != nil {
			return fmt.Errorf("writing what the proxy saw to %s: %w", path, err)
		}
	}
	if err := buffer.Flush(); err != nil {
		return fmt.Errorf("writing what the proxy saw to %s: %w", path, err)
	}
	return nil
}
