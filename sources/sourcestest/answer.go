package sourcestest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// errNoPage is the answer for kinds that are not served. API servers answer such paths with plain
// text, not with a Status.
var errNoPage = errors.New("404 page not found")

// RoundTrip answers a request, or fails as a network does.
func (s *Server) RoundTrip(raw *http.Request) (*http.Response, error) {
	if answer, err := s.discovered(raw.URL.Path); err != nil {
		return refuse(raw, err), nil
	} else if answer != nil {
		return respond(raw, http.StatusOK, jsonBody(answer)), nil
	}
	made, err := parse(raw)
	if err != nil {
		return refuse(raw, err), nil
	}
	fault := s.receive(made)
	switch fault.Action {
	case Refuse:
		answer := refuse(raw, fault.refusal(made.verb, made.resource.GroupResource(), made.key.Name))
		if fault.RetryAfter > 0 {
			answer.Header.Set("Retry-After", strconv.Itoa(int(fault.RetryAfter/time.Second)))
		}
		return answer, nil
	case Answer:
		answer := respond(raw, http.StatusOK, io.NopCloser(strings.NewReader(fault.Body)))
		answer.Header.Set("Content-Type", fault.ContentType)
		return answer, nil
	case Hang:
		<-raw.Context().Done()
	case Disconnect:
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	case Slow:
		timer := time.NewTimer(fault.For)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-raw.Context().Done():
		}
	}
	if err := raw.Context().Err(); err != nil {
		return nil, err
	}
	code, body, err := s.handle(made)
	if err != nil {
		return refuse(raw, err), nil
	}
	if fault.Action == LoseAnswer {
		if err := body.Close(); err != nil {
			return nil, err
		}
		return nil, &net.OpError{Op: "read", Net: "tcp", Err: syscall.ECONNRESET}
	}
	return respond(raw, code, body), nil
}

// receive counts a request and returns the fault that applies to it.
func (s *Server) receive(made *request) Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests[made.verb+" "+made.resource.GroupResource().String()]++
	s.numbers[made.stream()]++
	fault, _ := s.decide(made.occasion(s.numbers[made.stream()]))
	return fault
}

// refusal returns the error with which a Refuse or a Fail answers.
func (f Fault) refusal(verb string, resource schema.GroupResource, name string) error {
	const message = "refused by the test"
	if f.Code == http.StatusGone {
		return apierrors.NewResourceExpired(message)
	}
	return apierrors.NewGenericServerResponse(f.Code, verb, resource, name, message, int(f.RetryAfter/time.Second), true)
}

func respond(raw *http.Request, code int, body io.ReadCloser) *http.Response {
	return &http.Response{
		Request: raw, StatusCode: code, Status: fmt.Sprintf("%d %s", code, http.StatusText(code)),
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {runtime.ContentTypeJSON}}, Body: body, ContentLength: -1,
	}
}

func refuse(raw *http.Request, err error) *http.Response {
	if errors.Is(err, errNoPage) {
		answer := respond(raw, http.StatusNotFound, io.NopCloser(bytes.NewReader([]byte(err.Error()))))
		answer.Header.Set("Content-Type", "text/plain; charset=utf-8")
		return answer
	}
	status := statusOf(err)
	answer := respond(raw, int(status.Code), jsonBody(status))
	if status.Details != nil && status.Details.RetryAfterSeconds > 0 {
		answer.Header.Set("Retry-After", strconv.Itoa(int(status.Details.RetryAfterSeconds)))
	}
	return answer
}

func jsonBody(value any) io.ReadCloser { return io.NopCloser(bytes.NewReader(encoded(value))) }

// statusOf returns an error as a Status of the API.
func statusOf(err error) *metav1.Status {
	status := metav1.Status{Status: metav1.StatusFailure, Code: http.StatusInternalServerError, Message: err.Error()}
	if known := apierrors.APIStatus(nil); errors.As(err, &known) {
		status = known.Status()
	}
	status.SetGroupVersionKind(schema.GroupVersionKind{Version: "v1", Kind: "Status"})
	return &status
}
