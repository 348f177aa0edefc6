package proxy

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strings"
	"time"
)

// exchange is one request and its answer while they pass.
type exchange struct {
	proxy    *Proxy
	call     Call
	before   uint64        // the highest version before the request came
	request  *bytes.Buffer // what has gone of a write
	response *bytes.Buffer // what has come in answer to it
}

type exchangeKey struct{}

func exchangeOf(ctx context.Context) *exchange { return ctx.Value(exchangeKey{}).(*exchange) }

// begin prepares to see the request's body.
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

// answered prepares to see the answer's body.
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
		// Its body is the connection: what the contender sends goes the other way.
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

// end completes the record of the call. Both bodies are closed by now.
func (e *exchange) end() {
	e.call.End = time.Now()
	if e.call.IsWrite() {
		if e.call.Name == "" { // The name of what is created is in the body alone.
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

// counted counts the bytes of a body, and copies them where they are wanted.
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
