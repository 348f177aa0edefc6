package faults

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"k8s.io/apiserver/pkg/endpoints/request"
)

// errBroken ends a stream as a broken connection does.
var errBroken = errors.New("faults: the stream was broken")

const (
	bookmark   = "BOOKMARK"
	initialEnd = "k8s.io/initial-events-end" // the annotation of the bookmark after a streamed list
)

// event is one event of a watch, as the API server sent it.
type event struct {
	Type   string          `json:"type"`
	Object json.RawMessage `json:"object"`

	head    head
	initial bool // it belongs to a streamed list
}

// key returns a name for the object of an event, in all namespaces.
func (e *event) key(s *stream) string {
	return objectKey(s.resource, e.head.Metadata.Namespace, e.head.Metadata.Name)
}

// line returns the bytes of an event.
func (e *event) line() []byte {
	encoded, _ := json.Marshal(map[string]any{"type": e.Type, "object": e.Object}) // Both were decoded.
	return append(encoded, '\n')
}

// editor changes the events of watches. Its methods are called from several goroutines.
type editor interface {
	// opened is called for each new stream.
	opened(s *stream)
	// edit sends what the operator gets in place of an event.
	edit(s *stream, e *event)
}

// stream is the answer to a watch. The pump writes into it, and the proxy reads from it.
type stream struct {
	wire      *wire
	resource  string
	signature string // distinguishes watches of one resource by their selectors
	listed    bool   // it begins with a streamed list
	upstream  io.ReadCloser

	mu      sync.Mutex
	ready   chan struct{} // full if there may be something to read
	buffer  []byte
	err     error
	trickle bool
}

// watch forwards a watch.
func (w *wire) watch(info *request.RequestInfo, r *http.Request) (*http.Response, error) {
	query := r.URL.Query()
	s := &stream{
		wire: w, resource: resourceOf(info), listed: query.Get("sendInitialEvents") == "true", ready: make(chan struct{}, 1),
		signature: r.URL.Path + "?" + query.Get("labelSelector") + "&" + query.Get("fieldSelector"),
	}
	w.mu.Lock()
	view, editor := w.past, w.editor
	w.mu.Unlock()
	var first []*event
	if view != nil {
		var err error
		if r, first, err = w.history(view, s, r, query); err != nil {
			return nil, err
		}
	}
	response, err := w.next.RoundTrip(r)
	if err != nil || response.StatusCode != http.StatusOK {
		return response, err
	}
	s.upstream, response.Body = response.Body, s
	w.mu.Lock()
	w.streams[s.signature] = s
	w.mu.Unlock()
	if editor != nil {
		editor.opened(s)
	}
	for _, e := range first {
		s.send(e)
	}
	ctx := r.Context()
	w.group.Go("watch", func(context.Context) error {
		if view != nil {
			select {
			case <-view.over:
			case <-ctx.Done():
			}
		}
		s.pump(s.listed && view == nil)
		return nil
	})
	return response, nil
}

// pump forwards the events of a stream until it ends.
func (s *stream) pump(initial bool) {
	decoder := json.NewDecoder(s.upstream)
	for {
		e := &event{initial: initial}
		if err := decoder.Decode(e); err != nil {
			s.end(err)
			return
		}
		_ = json.Unmarshal(e.Object, &e.head) // A Status has no name.
		if e.Type == bookmark && e.head.Metadata.Annotations[initialEnd] != "" {
			initial = false
		}
		s.wire.mu.Lock()
		editor := s.wire.editor
		s.wire.mu.Unlock()
		if editor == nil {
			s.send(e)
			continue
		}
		editor.edit(s, e)
	}
}

// send delivers an event to the operator.
func (s *stream) send(e *event) {
	if e.Type != bookmark {
		s.wire.note(s.resource, e.head)
	}
	s.raw(e.line())
}

// raw delivers bytes to the operator.
func (s *stream) raw(bytes []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return // Nothing follows the end.
	}
	s.buffer = append(s.buffer, bytes...)
	s.wake()
}

// end ends the stream after what was delivered.
func (s *stream) end(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.err = err
	}
	s.wake()
}

func (s *stream) wake() {
	select {
	case s.ready <- struct{}{}:
	default:
	}
}

// Read implements io.Reader.
func (s *stream) Read(into []byte) (int, error) {
	for {
		s.mu.Lock()
		if len(s.buffer) > 0 {
			if s.trickle {
				into = into[:min(len(into), 16)]
			}
			n := copy(into, s.buffer)
			s.buffer = s.buffer[n:]
			trickle := s.trickle
			s.mu.Unlock()
			if trickle {
				<-time.After(50 * time.Microsecond)
			}
			return n, nil
		}
		err := s.err
		s.mu.Unlock()
		if err != nil {
			return 0, err
		}
		<-s.ready
	}
}

// hasten ends the trickle of all watches.
func (w *wire) hasten() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range w.streams {
		s.mu.Lock()
		s.trickle = false
		s.mu.Unlock()
	}
}

// Close implements io.Closer.
func (s *stream) Close() error {
	s.end(io.EOF)
	return s.upstream.Close()
}

// past is an older view of the cluster: the state at a revision, and no later event until it is over.
type past struct {
	revision string
	over     chan struct{} // closed when the present begins
}

// before changes a list so that it shows the past, if there is one.
func (w *wire) before(r *http.Request) *http.Request {
	w.mu.Lock()
	view := w.past
	w.mu.Unlock()
	query := r.URL.Query()
	if view == nil || query.Get("continue") != "" {
		return r
	}
	return at(r, query, view.revision)
}

// at returns a list of the state at a revision.
func at(r *http.Request, query url.Values, revision string) *http.Request {
	query.Set("resourceVersion", revision)
	query.Set("resourceVersionMatch", "Exact")
	r = r.Clone(r.Context())
	r.URL.RawQuery = query.Encode()
	return r
}

// history prepares a watch of the past: it returns the events of a streamed list, and a watch that
// goes on from there.
func (w *wire) history(view *past, s *stream, r *http.Request, query url.Values) (*http.Request, []*event, error) {
	if !s.listed {
		return r, nil, nil
	}
	query.Del("sendInitialEvents")
	query.Del("resourceVersionMatch")
	query.Set("resourceVersion", view.revision)
	onward := r.Clone(r.Context())
	onward.URL.RawQuery = query.Encode()

	listing := url.Values{}
	for _, name := range []string{"labelSelector", "fieldSelector"} {
		if value := query.Get(name); value != "" {
			listing.Set(name, value)
		}
	}
	list := at(r, listing, view.revision)
	accept := strings.ReplaceAll(list.Header.Get("Accept"), ";stream=watch", "")
	list.Header.Set("Accept", strings.ReplaceAll(accept, "as=PartialObjectMetadata;", "as=PartialObjectMetadataList;"))
	response, body, err := w.exchange(list)
	if err != nil {
		return nil, nil, err
	}
	if response.StatusCode != http.StatusOK {
		return nil, nil, errors.New("faults: list the past: " + string(body))
	}
	var held struct {
		head
		Items []map[string]any `json:"items"`
	}
	if err := json.Unmarshal(body, &held); err != nil {
		return nil, nil, err
	}
	var events []*event
	add := func(kind string, object map[string]any) error {
		encoded, err := json.Marshal(object)
		e := &event{Type: kind, Object: encoded, initial: true}
		_ = json.Unmarshal(encoded, &e.head) // It was just encoded.
		events = append(events, e)
		return err
	}
	kind := strings.TrimSuffix(held.Kind, "List")
	for _, item := range held.Items {
		item["kind"], item["apiVersion"] = kind, held.APIVersion
		if err := add("ADDED", item); err != nil {
			return nil, nil, err
		}
	}
	return onward, events, add(bookmark, map[string]any{"kind": kind, "apiVersion": held.APIVersion, "metadata": map[string]any{
		"resourceVersion": view.revision, "annotations": map[string]any{initialEnd: "true"},
	}})
}
