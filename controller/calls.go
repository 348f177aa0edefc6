package controller

import (
	"net/http"
	"time"

	"github.com/bellerophon-io/bellerophon/operators"
	utilnet "k8s.io/apimachinery/pkg/util/net"
)

// calls is a transport that records the requests of an attempt, for the history.
type calls struct{ next http.RoundTripper }

var _ utilnet.RoundTripperWrapper = calls{}

// recordingCalls returns a client whose requests are recorded.
func recordingCalls(client *http.Client) *http.Client {
	return over(client, func(next http.RoundTripper) http.RoundTripper { return calls{next} })
}

// over returns a client with a transport over the client's own.
func over(client *http.Client, made func(next http.RoundTripper) http.RoundTripper) *http.Client {
	copied := *client
	if copied.Transport == nil {
		copied.Transport = http.DefaultTransport
	}
	copied.Transport = made(copied.Transport)
	return &copied
}

// WrappedRoundTripper returns the transport behind this one.
func (c calls) WrappedRoundTripper() http.RoundTripper { return c.next }

// RoundTrip sends a request, and records it when the answer begins.
func (c calls) RoundTrip(request *http.Request) (*http.Response, error) {
	began := time.Now()
	response, err := c.next.RoundTrip(request)
	call := operators.Call{Method: request.Method, Path: request.URL.Path, Sent: began, Took: time.Since(began)}
	if err == nil {
		call.Code = response.StatusCode
	}
	operators.RecordCall(request.Context(), call)
	return response, err
}
