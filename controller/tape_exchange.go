package controller

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/bellerophon-io/bellerophon/controller/recording"
	"k8s.io/apimachinery/pkg/runtime"
	utilnet "k8s.io/apimachinery/pkg/util/net"
)

// exchanges is a transport that records the requests of attempts with their answers, and the answers about resources.
type exchanges struct {
	next  http.RoundTripper
	tape  *tape
	codec runtime.Decoder
	base  string // the path of an API server that is behind a proxy; the recorded paths begin after it
}

var _ utilnet.RoundTripperWrapper = exchanges{}

// WrappedRoundTripper returns the transport behind this one.
func (e exchanges) WrappedRoundTripper() http.RoundTripper { return e.next }

// aboutResources matches the paths at which an API server describes its groups, a group, or the resources of a group.
var aboutResources = regexp.MustCompile(`^/(api(/[^/]+)?|apis(/[^/]+){0,2})$`)

// RoundTrip sends a request. It is recorded when its answer was read.
func (e exchanges) RoundTrip(request *http.Request) (*http.Response, error) {
	of := tapedOf(request.Context())
	path := strings.TrimPrefix(request.URL.Path, e.base)
	isAboutResources := request.Method == http.MethodGet && aboutResources.MatchString(path)
	if of == nil && !isAboutResources || isWatch(request.URL) {
		return e.next.RoundTrip(request)
	}
	made := &recording.Exchange{Method: request.Method, URL: strings.TrimPrefix(request.URL.RequestURI(), e.base), ContentType: request.Header.Get("Content-Type"), Sent: time.Now().UnixNano()}
	if of != nil {
		made.Attempt = of.number
	}
	var err error
	if made.Body, err = bodyOf(request); err != nil {
		return nil, err
	}
	response, err := e.next.RoundTrip(request)
	if err != nil {
		made.Err = err.Error()
		e.record(of, made)
		return response, err
	}
	made.Code, made.AnswerType, made.RetryAfter = response.StatusCode, response.Header.Get("Content-Type"), response.Header.Get("Retry-After")
	body := &answerBody{ReadCloser: response.Body, ended: func(answer []byte, err error) {
		if made.Answer = answer; err != nil {
			made.Err = err.Error()
		}
		if of == nil || isAboutResources {
			e.served(path, made)
			return
		}
		e.record(of, made)
	}}
	if length := response.ContentLength; length > 0 && length < mostSized {
		body.read.Grow(int(length))
	}
	response.Body = body
	return response, nil
}

// isWatch reports whether a URL asks for a watch. Most have no query that has to be read for that.
func isWatch(of *url.URL) bool {
	return strings.Contains(of.RawQuery, "watch") && of.Query().Get("watch") != ""
}

// mostSized bounds the memory that is taken for a body because of its announced length.
const mostSized = 1 << 20

// bodyOf returns the body of a request, which stays as it is.
func bodyOf(request *http.Request) ([]byte, error) {
	if request.Body == nil || request.Body == http.NoBody {
		return nil, nil
	}
	if request.GetBody != nil {
		again, err := request.GetBody()
		if err != nil {
			return nil, err
		}
		defer func() { _ = again.Close() }() // It only was read.
		if length := request.ContentLength; length > 0 && length < mostSized {
			read := make([]byte, length)
			_, err := io.ReadFull(again, read)
			return read, err
		}
		return io.ReadAll(again)
	}
	read, err := io.ReadAll(request.Body)
	if err == nil {
		err = request.Body.Close()
	}
	request.Body = io.NopCloser(bytes.NewReader(read))
	return read, err
}

// record adds an exchange to the recording.
func (e exchanges) record(of *taped, made *recording.Exchange) {
	of.mu.Lock()
	defer of.mu.Unlock()
	of.at, of.last = e.tape.now(), time.Now()
	record := recording.Record{At: of.last.UnixNano(), Position: of.at, Exchange: made}
	e.tape.writer.Put(recording.Pending{Record: record, Encode: func(record *recording.Record, redact *recording.Redactor) error {
		hideSecrets(record.Exchange, e.codec, redact)
		return nil
	}}, 256+len(made.Body)+len(made.Answer))
}

// served adds what the API server serves.
func (e exchanges) served(path string, made *recording.Exchange) {
	if made.Code == http.StatusOK && made.Err == "" {
		e.tape.put(recording.Record{Served: &recording.Served{Path: path, Type: made.AnswerType, Answer: made.Answer}}, len(made.Answer))
	}
}

// mostKept bounds an answer that is recorded. A list of all objects, or a log that is followed, may be longer.
const mostKept = 16 << 20

var errTooLong = fmt.Errorf("the recording has no answers of more than %d MiB", mostKept>>20)

// answerBody passes an answer on, and keeps it.
type answerBody struct {
	io.ReadCloser
	read    bytes.Buffer
	tooLong bool
	once    sync.Once
	ended   func(answer []byte, err error)
}

func (b *answerBody) Read(into []byte) (int, error) {
	n, err := b.ReadCloser.Read(into)
	switch {
	case b.tooLong:
	case b.read.Len()+n > mostKept:
		b.tooLong, b.read = true, bytes.Buffer{}
	default:
		b.read.Write(into[:n])
	}
	switch {
	case errors.Is(err, io.EOF):
		b.end(nil)
	case err != nil:
		b.end(err)
	}
	return n, err
}

func (b *answerBody) Close() error {
	err := b.ReadCloser.Close()
	b.end(nil)
	return err
}

// end hands over what was read. err is why it is not all.
func (b *answerBody) end(err error) {
	b.once.Do(func() {
		if b.tooLong {
			err = errTooLong
		}
		b.ended(b.read.Bytes(), err)
	})
}

// concernsSecrets reports whether a request may carry values that are hidden: of a Secret, or a token. Anything may be
// before the path of the resource, as with a proxy.
func concernsSecrets(url string) bool {
	path, _, _ := strings.Cut(url, "?")
	_, resource, is := strings.Cut(path, "/api/v1/")
	return is && (strings.Contains("/"+resource+"/", "/secrets/") || strings.HasSuffix(resource, "/token"))
}

// hideSecrets replaces the values of Secrets in an exchange.
func hideSecrets(of *recording.Exchange, codec runtime.Decoder, redact *recording.Redactor) {
	if !concernsSecrets(of.URL) {
		return
	}
	of.Body, of.ContentType = hiddenBody(of.Body, of.ContentType, codec, redact)
	of.Answer, of.AnswerType = hiddenBody(of.Answer, of.AnswerType, codec, redact)
}

// hiddenBody returns a body without the values of Secrets. Protobuf becomes JSON. A body that cannot be read is left out.
func hiddenBody(body []byte, contentType string, codec runtime.Decoder, redact *recording.Redactor) ([]byte, string) {
	if len(body) == 0 {
		return nil, contentType
	}
	encoded, contentType := asJSON(body, contentType, codec)
	hidden, err := redact.Object(encoded)
	if err != nil {
		return nil, contentType // It may be a value in any form.
	}
	return hidden, contentType
}
