package simple

import (
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// lookAgain is the delay of a requeue while an object that the operator does not watch blocks a
// child. Its deletion causes no event.
const lookAgain = 30 * time.Second

// isRefused reports whether the API server refused a write because of validation, a policy, a quota
// or permissions.
func isRefused(err error) bool {
	return apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || (apierrors.IsForbidden(err) && !isTerminating(err))
}

// isTerminating reports whether a write failed because its namespace is being deleted.
func isTerminating(err error) bool {
	return apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause)
}

// verdict turns the results of the children into the result of the reconcile: the delay of a
// requeue, or the error to back off from.
func verdict(after time.Duration, done []ensured) (time.Duration, error) {
	var errs []error
	for _, child := range done {
		switch {
		case child.err == nil, isTerminating(child.err):
		case errors.Is(child.err, errUnlisted):
			after = conflictWait // The reconcile after the list decides.
		case apierrors.IsConflict(child.err), errors.Is(child.err, errReplaced):
			after = conflictWait // Another client changed the child meanwhile. That event requeues the object.
		case errors.Is(child.err, errLeaving), errors.Is(child.err, errNameTaken):
			if after == 0 {
				after = lookAgain
			}
		default:
			errs = append(errs, child.err)
		}
	}
	// No refusal is final. An admission policy answers as validation does, with Invalid or BadRequest, and no
	// event follows when the policy is lifted.
	if err := errors.Join(errs...); err != nil {
		return 0, err
	}
	return after, nil
}
