package sources_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"syscall"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// server is an API server without a network. Each request waits until the test answers it, so the
// test decides what happens, step by step. It works in a synctest bubble.
type server struct {
	requests chan *request
	stubborn bool // continues a request after its context has ended
}

func newServer() *server { return &server{requests: make(chan *request)} }

// RoundTrip passes a request to the test and waits for its answer.
func (s *server) RoundTrip(wanted *http.Request) (*http.Response, error) {
	made := &request{path: wanted.URL.Path, query: wanted.URL.Query(), header: wanted.Header, ctx: wanted.Context(), answers: make(chan answer, 1)}
	select {
	case s.requests <- made:
	case <-made.ctx.Done():
		return nil, made.ctx.Err()
	}
	done := made.ctx.Done()
	if s.stubborn {
		done = nil
	}
	select {
	case answer := <-made.answers:
		if answer.err == nil {
			answer.response.Request = wanted
		}
		return answer.response, answer.err
	case <-done:
		return nil, made.ctx.Err()
	}
}

// next returns the next request. In a bubble, it waits only as long as something can still happen.
func (s *server) next(t *testing.T) *request {
	t.Helper()
	select {
	case made := <-s.requests:
		return made
	case <-t.Context().Done():
		t.Fatal("there was no request")
		return nil
	}
}

// none fails the test if there is a request now.
func (s *server) none(t *testing.T) {
	t.Helper()
	synctest.Wait()
	select {
	case made := <-s.requests:
		t.Fatalf("there was a request: %s?%s", made.path, made.query.Encode())
	default:
	}
}

// request is a request waiting for its answer.
type request struct {
	path    string
	query   url.Values
	header  http.Header
	ctx     context.Context
	answers chan answer
}

type answer struct {
	response *http.Response
	err      error
}

// has fails the test unless the query has these parameters, given in pairs.
func (r *request) has(t *testing.T, pairs ...string) *request {
	t.Helper()
	for i := 0; i < len(pairs); i += 2 {
		if got := r.query.Get(pairs[i]); got != pairs[i+1] {
			t.Fatalf("%s is %q, want %q, in %s?%s", pairs[i], got, pairs[i+1], r.path, r.query.Encode())
		}
	}
	return r
}

func (r *request) answer(code int, body io.ReadCloser) {
	r.answers <- answer{response: &http.Response{
		StatusCode: code, Status: http.StatusText(code), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: body, ContentLength: -1,
	}}
}

// unreachable answers as a machine without a listening server does.
func (r *request) unreachable() { r.answers <- answer{err: syscall.ECONNREFUSED} }

// list answers with a list.
func (r *request) list(version string, items ...*corev1.ConfigMap) {
	list := &corev1.ConfigMapList{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMapList"},
		ListMeta: metav1.ListMeta{ResourceVersion: version},
	}
	for _, item := range items {
		list.Items = append(list.Items, *item)
	}
	r.answer(http.StatusOK, io.NopCloser(bytes.NewReader(encoded(list))))
}

// refuse answers with a failure.
func (r *request) refuse(code int, reason metav1.StatusReason, message string) {
	r.answer(code, io.NopCloser(bytes.NewReader(encoded(failure(code, reason, message)))))
}

func failure(code int, reason metav1.StatusReason, message string) *metav1.Status {
	return &metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
		Status:   metav1.StatusFailure, Code: int32(code), Reason: reason, Message: message,
	}
}

// open answers with an open watch.
func (r *request) open() *connection {
	read, write := io.Pipe()
	stop := context.AfterFunc(r.ctx, func() { write.CloseWithError(r.ctx.Err()) })
	r.answer(http.StatusOK, &body{read, stop})
	return &connection{write}
}

// body gives its reader an error when the request is over, as a connection does.
type body struct {
	*io.PipeReader
	stop func() bool
}

func (b *body) Close() error {
	b.stop()
	return b.PipeReader.Close()
}

// connection is an open watch.
type connection struct{ write *io.PipeWriter }

// send sends an event in the framing of the protocol, and waits until it is read.
func (c *connection) send(t *testing.T, kind string, object runtime.Object) {
	t.Helper()
	frame := encoded(metav1.WatchEvent{Type: kind, Object: runtime.RawExtension{Object: object}})
	if _, err := c.write.Write(append(frame, '\n')); err != nil {
		t.Fatalf("sending %s: %v", kind, err)
	}
	synctest.Wait()
}

// listed ends the list at the beginning of a watch.
func (c *connection) listed(t *testing.T, version string) {
	t.Helper()
	end := configMap("", "", version)
	end.Annotations = map[string]string{metav1.InitialEventsAnnotationKey: "true"}
	c.send(t, "BOOKMARK", end)
}

// cut ends the connection, as a load balancer may.
func (c *connection) cut() {
	_ = c.write.Close() // A pipe's Close does not fail.
	synctest.Wait()
}

func encoded(value any) []byte {
	made, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return made
}

func configMap(namespace, name, version string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name, ResourceVersion: version,
			ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubectl"}},
		},
		Data: map[string]string{"kept": "yes", "dropped": "yes"},
	}
}

// page returns one page of a list.
func page(version, next string, item *corev1.ConfigMap) io.ReadCloser {
	return io.NopCloser(bytes.NewReader(encoded(&corev1.ConfigMapList{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMapList"},
		ListMeta: metav1.ListMeta{ResourceVersion: version, Continue: next},
		Items:    []corev1.ConfigMap{*item},
	})))
}
