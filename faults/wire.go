package faults

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/endpoints/request"
)

var paths = request.RequestInfoFactory{APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api")}

// errKilled ends a request whose answer the operator does not live to see.
var errKilled = errors.New("faults: the operator was killed")

// version is one state of an object.
type version struct{ uid, resourceVersion string }

// wire is the way between the proxy and the API server. It sees each request of the operator,
// records it, and changes it as the case under test wants.
type wire struct {
	next    http.RoundTripper
	group   *lifecycle.Group // the pumps of watches
	writing chan struct{}    // full while a write is in flight: writes pass one after another

	mu         sync.Mutex
	requests   int
	lists      map[string]int      // lists and streamed lists, by resource
	counts     map[string]int      // effective writes, by namespace and kind of write
	effective  map[string][]string // effective writes in order, by namespace
	tries      map[string]tries    // what the operator tried to write, by namespace
	seen       map[string]version  // what the operator last read of each object
	unseen     map[string]bool     // resources with watches over WebSockets, whose events pass unread
	violations []string            // writes to an object that the operator has not seen
	kill       *killing
	refuse     func(*request.RequestInfo, *http.Request) *answer // answers instead of the API server; may be nil
	editor     editor
	streams    map[string]*stream // the newest stream of each signature
	past       *past
	skew       time.Duration // what is added to the time of answers
	changed    chan struct{} // closed and replaced with each request
}

// tries are writes that the operator tried.
type tries struct {
	count int
	at    time.Time // when it last tried
	last  string
}

// answer replaces the answer of the API server.
type answer struct {
	code       int
	reason     string
	message    string
	retryAfter string
	commit     bool  // forward the request first
	err        error // fail the request instead
}

// wrap returns a wire in front of a transport. The wire needs close.
func wrap(next http.RoundTripper) *wire {
	return &wire{
		next: next, group: lifecycle.New(context.Background()), writing: make(chan struct{}, 1),
		lists: map[string]int{}, tries: map[string]tries{}, counts: map[string]int{}, effective: map[string][]string{},
		seen: map[string]version{}, unseen: map[string]bool{}, streams: map[string]*stream{}, changed: make(chan struct{}),
	}
}

// close waits for the watches, which end with the proxy.
func (w *wire) close() error {
	w.group.Stop()
	return w.group.Wait()
}

// RoundTrip implements http.RoundTripper.
func (w *wire) RoundTrip(r *http.Request) (*http.Response, error) {
	info, err := paths.NewRequestInfo(r)
	if err != nil || !info.IsResourceRequest {
		return w.next.RoundTrip(r)
	}
	r = plain(r)
	w.count(info, r)
	if response, err := w.refused(info, r); response != nil || err != nil {
		return response, err
	}
	w.countList(info, r)
	switch {
	case isWrite(info, r):
		return w.write(info, r)
	case info.Verb == "watch" && r.Header.Get("Upgrade") == "": // The events of a WebSocket pass unchanged.
		return w.watch(info, r)
	case info.Verb == "list" || info.Verb == "get":
		return w.read(info, r)
	}
	return w.next.RoundTrip(r)
}

// plain returns a copy of a request for an answer in uncompressed JSON.
func plain(r *http.Request) *http.Request {
	r = r.Clone(r.Context())
	for i, accept := range r.Header["Accept"] {
		accept = strings.ReplaceAll(accept, "application/vnd.kubernetes.protobuf;stream=watch", "application/json")
		r.Header["Accept"][i] = strings.ReplaceAll(accept, "application/vnd.kubernetes.protobuf", "application/json")
	}
	r.Header.Del("Accept-Encoding")
	return r
}

// isWrite reports whether a request changes an object, and is not about Leases, Events or reviews.
func isWrite(info *request.RequestInfo, r *http.Request) bool {
	switch info.Verb {
	case "create", "update", "patch", "delete", "deletecollection":
	default:
		return false
	}
	switch info.APIGroup {
	case "authorization.k8s.io", "authentication.k8s.io", "coordination.k8s.io", "events.k8s.io":
		return false
	}
	return info.Resource != "events" && r.URL.Query().Get("dryRun") == ""
}

func resourceOf(info *request.RequestInfo) string {
	if info.APIGroup == "" {
		return info.Resource
	}
	return info.Resource + "." + info.APIGroup
}

// objectKey returns a name for an object in all namespaces.
func objectKey(resource, namespace, name string) string {
	return resource + "/" + namespace + "/" + name
}

func (w *wire) count(info *request.RequestInfo, r *http.Request) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.requests++
	w.notify()
	if r.Header.Get("Upgrade") != "" {
		w.unseen[resourceOf(info)] = true
	}
	if isWrite(info, r) {
		what := info.Verb + " " + info.Resource + "/" + info.Subresource + " " + info.Namespace + "/" + info.Name
		w.tries[info.Namespace] = tries{w.tries[info.Namespace].count + 1, time.Now(), what}
	}
}

// notify wakes what waits for requests. The caller holds the lock.
func (w *wire) notify() {
	close(w.changed)
	w.changed = make(chan struct{})
}

// countList counts a list, or a watch that begins with one.
func (w *wire) countList(info *request.RequestInfo, r *http.Request) {
	query := r.URL.Query()
	streamed := info.Verb == "watch" && query.Get("sendInitialEvents") == "true"
	// A list of one object asks for the current version, and a page continues a list.
	paged := query.Get("limit") == "1" || query.Get("continue") != ""
	if !streamed && (info.Verb != "list" || paged) {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lists[resourceOf(info)+"?"+query.Get("labelSelector")+query.Get("fieldSelector")]++
	w.notify()
}

// refused returns the answer that a case wants instead of the API server's, if any.
func (w *wire) refused(info *request.RequestInfo, r *http.Request) (*http.Response, error) {
	w.mu.Lock()
	var is *answer
	if w.refuse != nil {
		is = w.refuse(info, r)
	}
	w.mu.Unlock()
	if is == nil {
		return nil, nil //nolint:nilnil // There is no such answer.
	}
	if is.commit {
		response, err := w.next.RoundTrip(r)
		if err != nil {
			return nil, err
		}
		_, _ = io.Copy(io.Discard, response.Body) // What is lost does not matter.
		_ = response.Body.Close()
	}
	if is.err != nil {
		return nil, is.err
	}
	status, err := json.Marshal(map[string]any{
		"kind": "Status", "apiVersion": "v1", "metadata": map[string]any{}, "status": "Failure",
		"message": is.message, "reason": is.reason, "code": is.code,
		"details": map[string]any{"name": info.Name, "group": info.APIGroup, "kind": info.Resource},
	})
	if err != nil {
		return nil, err
	}
	response := respond(r, is.code, status)
	if is.retryAfter != "" {
		response.Header.Set("Retry-After", is.retryAfter)
	}
	return response, nil
}

func respond(r *http.Request, code int, body []byte) *http.Response {
	return &http.Response{
		StatusCode: code, Status: http.StatusText(code), Proto: r.Proto, ProtoMajor: r.ProtoMajor, ProtoMinor: r.ProtoMinor,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(body)),
		ContentLength: int64(len(body)), Request: r,
	}
}

// read forwards a get or a list, and notes the versions in its answer.
func (w *wire) read(info *request.RequestInfo, r *http.Request) (*http.Response, error) {
	if info.Verb == "list" {
		r = w.before(r)
	}
	response, body, err := w.exchange(r)
	if err != nil || response.StatusCode >= http.StatusMultipleChoices {
		return response, err
	}
	var list struct {
		head
		Items []head `json:"items"`
	}
	if json.Unmarshal(body, &list) != nil {
		return response, nil // Such as a Table.
	}
	if info.Verb == "get" {
		w.note(resourceOf(info), list.head)
	}
	for _, item := range list.Items {
		w.note(resourceOf(info), item)
	}
	return response, nil
}

// exchange forwards a request and reads the whole answer, which it leaves readable.
func (w *wire) exchange(r *http.Request) (*http.Response, []byte, error) {
	response, err := w.next.RoundTrip(r)
	if err != nil {
		return nil, nil, err
	}
	body, err := io.ReadAll(response.Body)
	_ = response.Body.Close() // It was read to its end.
	if err != nil {
		return nil, nil, err
	}
	response.Body = io.NopCloser(bytes.NewReader(body))
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.skew != 0 {
		response.Header.Set("Date", time.Now().Add(w.skew).UTC().Format(http.TimeFormat))
	}
	return response, body, nil
}

// head is the part of an object that identifies its version.
type head struct {
	Kind       string `json:"kind"`
	APIVersion string `json:"apiVersion"`
	Metadata   struct {
		Name              string            `json:"name"`
		Namespace         string            `json:"namespace"`
		UID               string            `json:"uid"`
		ResourceVersion   string            `json:"resourceVersion"`
		DeletionTimestamp string            `json:"deletionTimestamp"`
		Annotations       map[string]string `json:"annotations"`
	} `json:"metadata"`
}

func (h head) version() version { return version{h.Metadata.UID, h.Metadata.ResourceVersion} }

// note records what the operator has read of an object.
func (w *wire) note(resource string, read head) {
	if read.Metadata.Name == "" {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	key := objectKey(resource, read.Metadata.Namespace, read.Metadata.Name)
	if older(read.Metadata.ResourceVersion, w.seen[key].resourceVersion) {
		return // Another watch of the kind was faster.
	}
	w.seen[key] = read.version()
}

// forget drops what the operator has seen, because it starts again.
func (w *wire) forget() {
	w.mu.Lock()
	defer w.mu.Unlock()
	clear(w.seen)
}

// recount begins a new count of requests and lists.
func (w *wire) recount() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.requests = 0
	clear(w.lists)
}

// idle waits until the operator has listed something since the last recount, and then sent no request for
// a while. It ends with ctx.
func (w *wire) idle(ctx context.Context, while time.Duration) {
	for {
		w.mu.Lock()
		changed, listed := w.changed, len(w.lists) > 0
		w.mu.Unlock()
		var over <-chan time.Time
		if listed {
			over = time.After(while)
		}
		select {
		case <-changed:
		case <-over:
			return
		case <-ctx.Done():
			return
		}
	}
}

// quiet waits until the operator has tried no write in a namespace for a time.
func (w *wire) quiet(ctx context.Context, namespace string, while time.Duration) error {
	for {
		w.mu.Lock()
		left := time.Until(w.tries[namespace].at.Add(while))
		w.mu.Unlock()
		if left <= 0 {
			return nil
		}
		timer := time.NewTimer(left)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return context.Cause(ctx)
		}
	}
}
