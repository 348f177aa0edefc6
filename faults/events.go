package faults

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// namespaceOf returns the namespace to whose trial an event belongs.
func namespaceOf(s *stream, e *event) string {
	if s.resource == namespaces.Resource {
		return e.head.Metadata.Name
	}
	return e.head.Metadata.Namespace
}

// isChange reports whether an event is a change of an object after the list, which a case may hold.
func isChange(e *event) bool {
	switch e.Type {
	case "ADDED", "MODIFIED", "DELETED":
		return !e.initial && e.head.Metadata.Name != "kube-root-ca.crt"
	}
	return false
}

// trace numbers the events of each object. It changes nothing.
type trace struct {
	mu       sync.Mutex
	numbers  map[string]int               // by signature and object
	order    map[string][]string          // the events of a namespace
	versions map[string]map[string]string // the version of each event, by namespace and event
}

func newTrace() *trace {
	return &trace{numbers: map[string]int{}, order: map[string][]string{}, versions: map[string]map[string]string{}}
}

// opened implements editor.
func (*trace) opened(*stream) {}

// edit implements editor.
func (t *trace) edit(s *stream, e *event) {
	if isChange(e) {
		t.number(s, e)
	}
	s.send(e)
}

// number returns the name of an event, such as "statefulsets.apps/pegasus #2".
func (t *trace) number(s *stream, e *event) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	counted := s.signature + " " + e.key(s)
	t.numbers[counted]++
	name, namespace := fmt.Sprintf("%s/%s #%d", s.resource, e.head.Metadata.Name, t.numbers[counted]), namespaceOf(s, e)
	if s.resource == namespaces.Resource {
		name = fmt.Sprintf("namespaces/* #%d", t.numbers[counted])
	}
	if t.versions[namespace] == nil {
		t.versions[namespace] = map[string]string{}
	}
	if !slices.Contains(t.order[namespace], name) {
		t.order[namespace] = append(t.order[namespace], name)
		t.versions[namespace][name] = e.head.Metadata.ResourceVersion
	}
	return name
}

func (t *trace) of(namespace string) []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.order[namespace])
}

func (t *trace) version(namespace, name string) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.versions[namespace][name]
}

// mode is what happens to the events of one object from a chosen event on.
type mode string

const (
	heldUntilEnd mode = "its object held at the old revision"
	lastOnly     mode = "unobserved, only the next event delivered"
	relistOnly   mode = "unobserved, only a relist delivered"
	endOnly      mode = "unobserved, only the last state delivered"
	olderView    mode = "restart on the view before it"
)

// hold is a chosen event in the namespace of a trial.
type hold struct {
	event   string
	mode    mode
	object  string // the key of the object, once the event has come
	over    bool
	waiting map[string][]*event // by signature
}

// holder holds events, in several namespaces at once.
type holder struct {
	*trace
	mu      sync.Mutex
	holds   map[string]*hold   // by namespace
	newest  map[string]*stream // by signature
	reached map[string]bool
}

func newHolder() *holder {
	return &holder{trace: newTrace(), holds: map[string]*hold{}, newest: map[string]*stream{}, reached: map[string]bool{}}
}

// opened implements editor. A list has the newest state, so that what was held is not needed.
func (h *holder) opened(s *stream) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.newest[s.signature] = s
	if s.listed {
		for _, hold := range h.holds {
			delete(hold.waiting, s.signature)
		}
	}
}

// edit implements editor.
func (h *holder) edit(s *stream, e *event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.newest[s.signature] = s
	if e.Type == bookmark && !e.initial {
		return // It would promise what is held.
	}
	if !isChange(e) {
		s.send(e)
		return
	}
	name, namespace := h.number(s, e), namespaceOf(s, e)
	hold := h.holds[namespace]
	if hold == nil || hold.over {
		s.send(e)
		return
	}
	if name == hold.event {
		hold.object = e.key(s)
		h.reached[namespace] = true
	}
	if hold.object != e.key(s) {
		s.send(e)
		return
	}
	hold.waiting[s.signature] = append(hold.waiting[s.signature], e)
	waiting := hold.waiting[s.signature]
	if hold.mode == heldUntilEnd || hold.mode == endOnly || len(waiting) < 2 {
		return
	}
	delete(hold.waiting, s.signature)
	hold.over = len(hold.waiting) == 0
	if hold.mode == relistOnly {
		s.raw([]byte(expired))
		s.end(io.EOF)
		return
	}
	for _, merged := range standIn(waiting) {
		s.send(merged)
	}
}

// standIn returns the one event that stands for several of an object, or none.
func standIn(waiting []*event) []*event {
	if merged := merge(waiting[0], waiting[len(waiting)-1]); merged != nil {
		return []*event{merged}
	}
	return nil
}

// merge returns the one event that stands for the first and the last one of an object, as after a
// relist. It returns nil if they cancel each other.
func merge(first, last *event) *event {
	merged := *last
	switch {
	case first.Type == "ADDED" && last.Type == "DELETED":
		return nil
	case first.Type == "ADDED":
		merged.Type = "ADDED"
	case last.Type != "DELETED":
		merged.Type = "MODIFIED"
	}
	return &merged
}

// release delivers what is held, in order. In the mode endOnly one event stands for all. If the first
// and the last one cancel each other, the client lists again: no watch may conceal for ever that an
// object is gone that the client itself created.
func (h *holder) release() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, hold := range h.holds {
		hold.over = true
		for signature, waiting := range hold.waiting {
			if hold.mode == endOnly && len(waiting) > 1 {
				if waiting = standIn(waiting); len(waiting) == 0 {
					h.newest[signature].raw([]byte(expired))
					h.newest[signature].end(io.EOF)
				}
			}
			for _, e := range waiting {
				h.newest[signature].send(e)
			}
		}
		clear(hold.waiting)
	}
}

// expired is the event of a watch whose version the API server no longer has.
const expired = `{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure",` +
	`"message":"too old resource version","reason":"Expired","code":410}}` + "\n"

// inNamespace reports whether a violation happened in a namespace.
func inNamespace(violation, namespace string) bool {
	return strings.Contains(violation, " in "+namespace+":")
}

// bookmarkBefore returns a bookmark that promises everything before an event.
func bookmarkBefore(e *event) []byte {
	version, err := strconv.ParseUint(e.head.Metadata.ResourceVersion, 10, 64)
	if err != nil {
		return nil
	}
	object, _ := json.Marshal(map[string]any{ // Strings can be encoded.
		"kind": e.head.Kind, "apiVersion": e.head.APIVersion, "metadata": map[string]any{"resourceVersion": strconv.FormatUint(version-1, 10)},
	})
	return (&event{Type: bookmark, Object: object}).line()
}
