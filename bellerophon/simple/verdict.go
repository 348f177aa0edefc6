package simple

import (
	"errors"
	"time"

	"github.com/bellerophon-io/bellerophon/operators"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// lookAgain is when to look again after what may end without an event: the deletion of
// an object that the operator does not watch.
const lookAgain = 30 * time.Second

// isRefused says whether the API server refuses a write for good reasons of its own:
// validation, a policy, a quota, permissions.
func isRefused(err error) bool {
	return apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || (apierrors.IsForbidden(err) && !isTerminating(err))
}

// isTerminating says whether a write came too late: its namespace is being deleted.
func isTerminating(err error) bool {
	return apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause)
}

// verdict is what the pipeline is told of what came of the children: when to look again,
// or the error to back off from.
func verdict(after time.Duration, done []ensured) (time.Duration, error) {
	var errs []error
	terminal := true
	for _, child := range done {
		switch {
		case child.err == nil, isTerminating(child.err):
		case errors.Is(child.err, errUnlisted):
			after = conflictWait // It is done when all is listed.
		case apierrors.IsConflict(child.err), errors.Is(child.err, errReplaced):
			after = conflictWait // Somebody changed it meanwhile, and that is an event.
		case errors.Is(child.err, errLeaving), errors.Is(child.err, errNameTaken):
			if after == 0 {
				after = lookAgain
			}
		default:
			errs = append(errs, child.err)
			terminal = terminal && (apierrors.IsInvalid(child.err) || apierrors.IsBadRequest(child.err))
		}
	}
	err := errors.Join(errs...)
	if terminal {
		err = operators.Terminal(err) // Only another spec can change that.
	}
	if err != nil {
		return 0, err
	}
	return after, nil
}
