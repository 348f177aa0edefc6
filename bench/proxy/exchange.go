package proxy

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strings"
	"time"
)

// exchange is one request and its answer while they pass through the proxy.
type exchange struct {
	proxy    *Proxy
	call     Call
	before   uint64        // the highest version before the request arrived
	request  *bytes.Buffer // of a write: the request's body so far
	response *bytes.Buffer // of a write: the answer's body so far
}

type exchangeKey struct{}

func exchangeOf(ctx context.Context) *exchange { return ctx.Value(exchangeKey{}).(*exchange) }

// begin records that the request arrived, and returns it with a body that is counted.
func (e *exchange) begin(r *http.Request) *http.Request {
	e.before = e.proxy.recorder.begin(e.call)
	if e.call.IsWrite() {
		e.request, e.response = &bytes.Buffer{}, &bytes.Buffer{}
	}
	r = r.WithContext(context.WithValue(r.Context(), exchangeKey{}, e))
	if r.Body != nil && r.Body != http.NoBody {
		r.Body = &counted{ReadCloser: r.Body, bytes: &e.call.In, copied: e.request}
	}
	return r
}

// answered wraps the answer's body, so that its bytes are counted and the events of a watch are
// recorded.
func (e *exchange) answered(response *http.Response) {
	e.call.Code = response.StatusCode
	if !e.call.IsWatch() || response.StatusCode >= http.StatusBadRequest {
		response.Body = &counted{ReadCloser: response.Body, bytes: &e.call.Out, copied: e.response}
		return
	}
	isProtobuf := strings.Contains(response.Header.Get("Content-Type"), "protobuf")
	seen := &tap{ReadCloser: response.Body, framing: lines, passed: func(whole []arrival) { e.events(whole, isProtobuf) }}
	switch {
	case response.StatusCode == http.StatusSwitchingProtocols:
		seen.framing = messages
		// The body is the connection, and the contender's messages are written to it.
		response.Body = struct {
			*tap
			io.Writer
		}{seen, response.Body.(io.Writer)}
		return
	case isProtobuf:
		seen.framing = lengthDelimited
	}
	response.Body = seen
}

func (e *exchange) events(whole []arrival, isProtobuf bool) {
	events := make([]Event, len(whole))
	for i, a := range whole {
		kind, object := eventOf(a.event, isProtobuf)
		events[i] = Event{
			At: a.at, Type: kind, Group: e.call.Group, Resource: e.call.Resource, Namespace: object.namespace, Name: object.name,
			Version: object.version, Generation: object.generation, Bytes: int64(a.size),
		}
	}
	e.proxy.recorder.events(events)
}

// end completes the record of the call. Its caller has closed both bodies.
func (e *exchange) end() {
	e.call.End = time.Now()
	if e.call.IsWrite() {
		if e.call.Name == "" { // The name of a created object is in the body alone.
			e.call.Name = metadataOf(e.request.Bytes()).name
		}
		if e.call.Code >= 200 && e.call.Code < 300 && e.call.Verb != "delete" && e.call.Verb != "deletecollection" {
			answer := metadataOf(e.response.Bytes())
			e.call.Version = answer.version
			e.call.Needless = answer.version > 0 && answer.version <= e.before
		}
	}
	e.proxy.recorder.end(e.call)
}

// counted counts the bytes of a body, and copies them if a buffer is set.
type counted struct {
	io.ReadCloser
	bytes  *int64
	copied *bytes.Buffer // may be nil
}

func (c *counted) Read(into []byte) (int, error) {
	n, err := c.ReadCloser.Read(into)
	*c.bytes += int64(n)
	if c.copied != nil {
		c.copied.Write(into[:n])
	}
	return n, err
}
