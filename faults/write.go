package faults

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"k8s.io/apiserver/pkg/endpoints/request"
)

// Moment is when the operator is killed, relative to a write.
type Moment string

// The moments of a write.
const (
	BeforeForward  Moment = "before it is forwarded"
	AnswerWithheld Moment = "after commit, answer withheld"
	AfterAnswer    Moment = "after the answer"
)

var moments = []Moment{BeforeForward, AnswerWithheld, AfterAnswer}

// answerTime is how long the operator may use an answer before it is killed. Writes of that time are
// held back, and are never forwarded.
const answerTime = 5 * time.Millisecond

// parallelTime is how long a write waits for the ones that the operator sends at the same time.
const parallelTime = 50 * time.Millisecond

// killing is a kill that is due at one write.
type killing struct {
	namespace string
	write     string // the kind of write and its number, such as "patch services a #2"
	moment    Moment
	kill      func()
}

// write forwards a write. Writes pass one after another, so that the number of a write has a meaning.
func (w *wire) write(info *request.RequestInfo, r *http.Request) (*http.Response, error) {
	kind := strings.TrimSuffix(info.Verb+" "+info.Resource+"/"+info.Subresource, "/") + " " + nameOf(info)
	if err := w.order(r.Context(), info.Namespace, kind); err != nil {
		return nil, err
	}
	select {
	case w.writing <- struct{}{}:
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
	release := func() { <-w.writing }
	before := w.current(info, r)
	w.mu.Lock()
	name := w.numbered(info.Namespace, kind)
	due := w.kill
	if due != nil && (due.namespace != info.Namespace || due.write != name) {
		due = nil
	}
	seen, known := w.seen[objectKey(resourceOf(info), info.Namespace, info.Name)]
	w.mu.Unlock()
	if due != nil && due.moment == BeforeForward {
		w.strike(due)
		release()
		return nil, errKilled
	}
	response, body, err := w.exchange(r)
	if err != nil {
		release()
		return nil, err
	}
	var after head
	_ = json.Unmarshal(body, &after) // The answer may be a Status.
	if !isEffective(info, response.StatusCode, before, after) {
		release()
		return response, nil
	}
	w.record(info, r, kind, name, before, seen, known)
	w.note(resourceOf(info), after)
	switch {
	case due != nil && due.moment == AnswerWithheld:
		w.strike(due)
		release()
		return nil, errKilled
	case due != nil:
		response.Body = &last{response.Body, func() {
			time.AfterFunc(answerTime, func() {
				w.strike(due)
				release()
			})
		}}
		return response, nil
	}
	release()
	return response, nil
}

// numbered returns the name of the next write of a kind. The caller holds the lock.
func (w *wire) numbered(namespace, kind string) string {
	return fmt.Sprintf("%s #%d", kind, w.counts[namespace+" "+kind]+1)
}

// order makes the result of a kill independent of the order in which parallel writes arrive. A write at which
// the operator is killed before it is forwarded is the last of them, and else the first. So both extremes of
// a half-done work occur: all others are done, or only this one is.
func (w *wire) order(ctx context.Context, namespace, kind string) error {
	w.mu.Lock()
	due := w.kill
	waits := due != nil && due.namespace == namespace && (due.write == w.numbered(namespace, kind)) == (due.moment == BeforeForward)
	w.mu.Unlock()
	if !waits {
		return nil
	}
	if lifecycle.Pause(ctx, parallelTime) != nil {
		return context.Cause(ctx)
	}
	return nil
}

// nameOf returns the name of the object of a request. A creation has no name in its path.
func nameOf(info *request.RequestInfo) string {
	if info.Name == "" {
		return "*"
	}
	return info.Name
}

// strike kills the operator, once.
func (w *wire) strike(due *killing) {
	w.mu.Lock()
	if w.kill != due {
		w.mu.Unlock()
		return
	}
	w.kill = nil
	w.mu.Unlock()
	due.kill()
}

// last is the body of the last answer. It calls ended when the answer has been sent.
type last struct {
	io.ReadCloser
	ended func()
}

// Close implements io.Closer.
func (l *last) Close() error {
	l.ended()
	return l.ReadCloser.Close()
}

// current returns the version of the object that a write is about, before the write.
func (w *wire) current(info *request.RequestInfo, r *http.Request) version {
	if info.Name == "" || info.Verb == "create" {
		return version{}
	}
	get := r.Clone(r.Context())
	get.Method, get.Body, get.ContentLength = http.MethodGet, nil, 0
	get.URL.RawQuery = ""
	get.URL.Path = strings.TrimSuffix(get.URL.Path, "/"+info.Subresource)
	get.Header = http.Header{"Accept": {"application/json"}}
	if authorization := r.Header.Get("Authorization"); authorization != "" {
		get.Header.Set("Authorization", authorization)
	}
	response, body, err := w.exchange(get)
	if err != nil || response.StatusCode != http.StatusOK {
		return version{}
	}
	var is head
	_ = json.Unmarshal(body, &is) // The server sends JSON.
	return is.version()
}

// isEffective reports whether a write changed something.
func isEffective(info *request.RequestInfo, code int, before version, after head) bool {
	switch {
	case code >= http.StatusMultipleChoices:
		return false
	case info.Verb == "create" || info.Verb == "delete" || info.Verb == "deletecollection":
		return true
	}
	return before != after.version()
}

// record counts an effective write, and checks that it was not based on an older state. An update or a
// deletion must not meet a version that the operator has not seen. A patch states what it wants of single
// fields, so it must only not meet another object of the same name. Server-side apply names neither.
func (w *wire) record(info *request.RequestInfo, r *http.Request, kind, name string, before, seen version, known bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.counts[info.Namespace+" "+kind]++
	w.effective[info.Namespace] = append(w.effective[info.Namespace], name)
	if !known || w.unseen[resourceOf(info)] || before.uid == "" || strings.HasPrefix(r.Header.Get("Content-Type"), "application/apply-patch") {
		return
	}
	switch {
	case before.uid != seen.uid:
		w.violations = append(w.violations, fmt.Sprintf("%s in %s: the object has uid %s, the operator has seen %s", name, info.Namespace, before.uid, seen.uid))
	case info.Verb != "patch" && older(seen.resourceVersion, before.resourceVersion):
		w.violations = append(w.violations, fmt.Sprintf("%s in %s: the object has version %s, the operator has seen %s",
			name, info.Namespace, before.resourceVersion, seen.resourceVersion))
	}
}

// older reports whether a version comes before another one. Versions that are no numbers do not.
func older(a, b string) bool {
	first, err := strconv.ParseUint(a, 10, 64)
	second, problem := strconv.ParseUint(b, 10, 64)
	return err == nil && problem == nil && first < second
}
