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
	over := *client
	if over.Transport == nil {
		over.Transport = http.DefaultTransport
	}
	over.Transport = calls{over.Transport}
	return &over
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
