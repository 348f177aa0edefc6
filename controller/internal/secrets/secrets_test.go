package secrets

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func TestAnErrorAboutASecretShowsOnlyMessagesThatCannotQuoteIt(t *testing.T) {
	const value, hidden = "hunter2", "; its message is not shown, because it may quote values of the Secret"
	resource := schema.GroupResource{Resource: "secrets"}
	denied := func(code int32, reason metav1.StatusReason, message string) error {
		return &apierrors.StatusError{ErrStatus: metav1.Status{Code: code, Reason: reason, Message: message}}
	}
	conflict := apierrors.NewApplyConflict([]metav1.StatusCause{
		{Type: metav1.CauseTypeFieldManagerConflict, Field: ".data.password"},
		{Type: metav1.CauseTypeFieldManagerConflict, Field: `.metadata.finalizers[="` + value + `"]`},
	}, "Apply failed: "+value)
	other := errors.New("no answer")
	for _, test := range []struct {
		name string
		err  error
		want string // "" for the text of err
	}{
		{"no answer", other, ""},
		{"not found", apierrors.NewNotFound(resource, "x"), ""},
		{"exists", apierrors.NewAlreadyExists(resource, "x"), ""},
		{"version", apierrors.NewConflict(resource, "x", errors.New("the object has been modified")), ""},
		{"RBAC", apierrors.NewForbidden(resource, "x", errors.New(`User "u" cannot update resource "secrets"`)), ""},
		{"quota", apierrors.NewForbidden(resource, "x", errors.New("exceeded quota")), ""},
		{"validation", apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("Secret").GroupKind(), "x", field.ErrorList{
			field.Invalid(field.NewPath("data").Key("a"), value, "no"), field.Invalid(field.NewPath("type"), value, "no"), field.Invalid(field.NewPath("type"), value, "again"),
		}), "the API server answered Invalid (422) for data[a], type" + hidden},
		{"decoding", apierrors.NewBadRequest(value), "the API server answered BadRequest (400)" + hidden},
		{"apply", conflict, "the API server answered Conflict (409) for .data.password, .metadata.finalizers" + hidden},
		{"webhook", denied(http.StatusForbidden, metav1.StatusReasonForbidden, `admission webhook "w" denied the request: `+value), "the API server answered Forbidden (403)" + hidden},
		{"webhook's reason", denied(http.StatusTeapot, value, value), "the API server answered I'm a teapot (418)" + hidden},
		{"policy", apierrors.NewForbidden(resource, "x", errors.New("ValidatingAdmissionPolicy 'p' with binding 'b' denied request: "+value)), "the API server answered Forbidden (403)" + hidden},
		{"proxy", apierrors.NewGenericServerResponse(http.StatusForbidden, "put", resource, "x", value, 0, true), "the API server answered Forbidden (403)" + hidden},
	} {
		got := HideValues(kind, test.err)
		want := test.want
		if want == "" {
			want = test.err.Error()
		}
		if got.Error() != want || strings.Contains(got.Error(), value) {
			t.Errorf("%s: the text is %q, want %q", test.name, got, want)
		}
		if !errors.Is(got, test.err) || apierrors.ReasonForError(got) != apierrors.ReasonForError(test.err) {
			t.Errorf("%s: %v is not the error of the API server any more", test.name, got)
		}
		if kept := HideValues(schema.GroupKind{Kind: "ConfigMap"}, test.err); kept.Error() != test.err.Error() {
			t.Errorf("%s: of another kind, the error is %v", test.name, kept)
		}
	}
}
