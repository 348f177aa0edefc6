package secrets

import (
	"errors"
	"fmt"
	"net/http"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestAReasonOfAWebhookIsReplacedByTheTextOfTheCode(t *testing.T) {
	const value = "password hunter2 is too short"
	of := func(reason metav1.StatusReason, code int32) error {
		return &apierrors.StatusError{ErrStatus: metav1.Status{Reason: reason, Code: code, Message: "denied"}}
	}
	for _, test := range []struct {
		err  error
		want string
	}{
		{of(value, http.StatusForbidden), "Forbidden"},
		{HideValues(schema.GroupKind{Kind: "Secret"}, of(value, http.StatusForbidden)), "Forbidden"},
		{fmt.Errorf("writing: %w", of(value, 0)), "an answer of the API server"},
		{of(metav1.StatusReasonConflict, http.StatusConflict), "Conflict"},
		{of(metav1.StatusReasonInvalid, http.StatusUnprocessableEntity), "Invalid"},
		{of("", http.StatusForbidden), ""},
		{errors.New(value), ""},
		{nil, ""},
	} {
		if got := ReasonOf(test.err); got != test.want {
			t.Errorf("the reason of %v is %q, want %q", test.err, got, test.want)
		}
	}
}
