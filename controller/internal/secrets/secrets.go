// Package secrets keeps values of Secrets out of errors and warnings. These end up in logs, Events and conditions,
// which more users may read than Secrets.
package secrets

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

var kind = schema.GroupKind{Kind: "Secret"}

// secretError is the error of a write of a Secret, without the text of the API server's message. The
// message of a validation, or of an admission webhook, may quote the Secret. Unwrap returns the error
// with the message.
type secretError struct {
	err    error
	status metav1.Status
}

func (e *secretError) Unwrap() error { return e.err }

// Error returns the reason, the code and the fields that the message is about.
func (e *secretError) Error() string {
	reason := string(e.status.Reason)
	if !knownReason(e.status.Reason) { // A webhook may set any reason.
		reason = http.StatusText(int(e.status.Code))
	}
	text := fmt.Sprintf("the API server answered %s (%d)", reason, e.status.Code)
	if fields := failedFields(e.status.Details); len(fields) > 0 {
		text += " for " + strings.Join(fields, ", ")
	}
	return text + "; its message is not shown, because it may quote values of the Secret"
}

// HideValues returns the error of a request for an object of a kind. For a Secret, the text of the returned error
// quotes no values; the error that it wraps does.
func HideValues(of schema.GroupKind, err error) error {
	var answer apierrors.APIStatus
	if of != kind || !errors.As(err, &answer) || isQuotable(answer.Status()) {
		return err
	}
	return &secretError{err, answer.Status()}
}

// quotable are the reasons whose messages name the object and the user, and no content.
var quotable = []metav1.StatusReason{
	metav1.StatusReasonNotFound, metav1.StatusReasonAlreadyExists, metav1.StatusReasonConflict, metav1.StatusReasonGone,
	metav1.StatusReasonExpired, metav1.StatusReasonUnauthorized, metav1.StatusReasonForbidden, metav1.StatusReasonTimeout,
	metav1.StatusReasonServerTimeout, metav1.StatusReasonTooManyRequests, metav1.StatusReasonMethodNotAllowed,
}

func knownReason(reason metav1.StatusReason) bool {
	return slices.Contains(quotable, reason) || slices.Contains([]metav1.StatusReason{
		metav1.StatusReasonInvalid, metav1.StatusReasonBadRequest, metav1.StatusReasonInternalError, metav1.StatusReasonServiceUnavailable,
		metav1.StatusReasonRequestEntityTooLarge, metav1.StatusReasonUnsupportedMediaType, metav1.StatusReasonNotAcceptable,
	}, reason)
}

// isQuotable reports whether the message of a status has no content of an object. Causes quote fields,
// and what a proxy answered. Admission webhooks and policies deny with texts of their own.
func isQuotable(status metav1.Status) bool {
	return slices.Contains(quotable, status.Reason) && (status.Details == nil || len(status.Details.Causes) == 0) &&
		!strings.Contains(status.Message, "denied")
}

// ReasonOf returns the reason of an answer of the API server, or an empty text if it has none, or if err is another
// error. A webhook may set any text as the reason, and quote the object in it. Then it is the text of the code.
func ReasonOf(err error) string {
	var answer apierrors.APIStatus
	if !errors.As(err, &answer) {
		return ""
	}
	status := answer.Status()
	if status.Reason == metav1.StatusReasonUnknown || knownReason(status.Reason) {
		return string(status.Reason)
	}
	return cmp.Or(http.StatusText(int(status.Code)), "an answer of the API server")
}

// failedFields returns the fields that the causes of a failure are about, each once.
func failedFields(details *metav1.StatusDetails) (fields []string) {
	if details == nil {
		return nil
	}
	for _, cause := range details.Causes {
		field := cause.Field
		if strings.ContainsAny(field, `"=`) { // A conflict names items of a list by their values.
			field, _, _ = strings.Cut(field, "[")
		}
		if field != "" && !slices.Contains(fields, field) {
			fields = append(fields, field)
		}
	}
	return fields
}

// DropWarnings returns a configuration for the clients of a kind. client-go logs the warnings of the API server, which
// may quote the object. So warnings about Secrets are dropped, unless the configuration has a handler.
func DropWarnings(of schema.GroupKind, config *rest.Config) *rest.Config {
	if of != kind || config.WarningHandler != nil || config.WarningHandlerWithContext != nil {
		return config
	}
	config = rest.CopyConfig(config)
	config.WarningHandler = rest.NoWarnings{}
	return config
}
