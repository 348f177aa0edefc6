package simple

import (
	"errors"
	"testing"

	"github.com/bellerophon-io/bellerophon/operators"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Admission policies refuse with these errors as well, and no event follows when they are lifted.
func TestAWriteThatTheServerRefusedIsTriedAgain(t *testing.T) {
	for _, refusal := range []error{
		apierrors.NewInvalid(schema.GroupKind{Group: "apps", Kind: "StatefulSet"}, "pegasus", nil),
		apierrors.NewBadRequest(`admission webhook "policy.example.com" denied the request`),
		apierrors.NewForbidden(schema.GroupResource{Resource: "services"}, "pegasus", errors.New("not now")),
	} {
		_, err := verdict(0, []ensured{{what: "StatefulSet", err: refusal}})
		if err == nil || operators.IsTerminal(err) {
			t.Errorf("after %v: %v, want an error that is tried again", refusal, err)
		}
	}
}
