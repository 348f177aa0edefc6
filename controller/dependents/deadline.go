package dependents

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/operators"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ErrDeadline is wrapped in the error of a dependent that was not ready within its deadline: see
// [Children.Deadline].
var ErrDeadline = errors.New("the deadline has passed")

// DeadlineExceeded is the reason of the condition of such a dependent.
const DeadlineExceeded = "DeadlineExceeded"

// conditionPrefix is the start of the types of the conditions of dependents with a deadline.
const conditionPrefix = "dependents.bellerophon.io/"

// Deadline bounds how long the children may take to get ready: 1 s and above. After that the dependent is
// Failed, which is permanent, with an [ErrDeadline]. It recovers when the children get ready, and the time
// starts anew when the generation of the owner changes. Time in which the dependent waits for others does
// not count.
//
// The time is kept in the conditions of the owner, and so outlives the process: the reconciler stores them
// with [Outcome.SetConditions]. conditions returns them.
func (d *Children[O, T]) Deadline(deadline time.Duration, conditions func(owner O) []metav1.Condition) *Children[O, T] {
	d.of.deadline, d.of.conditions = deadline, conditions
	switch {
	case deadline < time.Second:
		d.of.wrong = fmt.Errorf("Deadline is %v; allowed is 1s and above", deadline)
	case conditions == nil:
		d.of.wrong = errors.New("Deadline has no function for the conditions of the owner; give one")
	}
	return d
}

// bounded returns the status of a node with its deadline.
func (p *pass[O]) bounded(n *node[O], status Status) Status {
	if n.deadline == 0 {
		return status
	}
	status.bounded = true
	if status.State == Ready || status.State == Absent || len(status.Waits) > 0 {
		return status
	}
	status.Since = p.since(n)
	left := time.Until(status.Since.Add(n.deadline))
	if left > 0 {
		status.lookAgain = earlier(status.lookAgain, left)
		return status
	}
	why := fmt.Errorf("%w: it was not ready within %v: %s", ErrDeadline, n.deadline, status.Message)
	status.State, status.Message, status.Permanent, status.lookAgain = Failed, why.Error(), true, 0
	status.Err = operators.Terminal(why)
	return status
}

// since returns when a node began to wait, as the conditions of the owner have it.
func (p *pass[O]) since(n *node[O]) time.Time {
	known := meta.FindStatusCondition(n.conditions(p.owner), conditionPrefix+n.name)
	if known != nil && known.Status == metav1.ConditionFalse && known.ObservedGeneration == p.owner.GetGeneration() && !known.LastTransitionTime.IsZero() {
		return known.LastTransitionTime.Time
	}
	return time.Now().Truncate(time.Second) // As it is stored.
}

// SetConditions sets a condition for each dependent with a [Children.Deadline] in the status of the owner,
// whose generation is given. It reports whether that changed anything: see [controller.SetConditions]. The
// condition is false since the dependent waits, with what it waits for. Its type is
// dependents.bellerophon.io/ and the name of the dependent.
func (o Outcome) SetConditions(conditions *[]metav1.Condition, generation int64) (changed bool) {
	after := slices.Clone(*conditions)
	for _, status := range o.Dependents {
		if !status.bounded {
			continue
		}
		made := metav1.Condition{Type: conditionPrefix + status.Name, Status: metav1.ConditionFalse, Reason: string(status.State), Message: status.Message}
		switch {
		case status.State == Ready || status.State == Absent:
			made.Status = metav1.ConditionTrue
		case len(status.Waits) > 0:
			made.Status = metav1.ConditionUnknown
		case errors.Is(status.Err, ErrDeadline):
			made.Reason = DeadlineExceeded
		}
		if !status.Since.IsZero() {
			made.LastTransitionTime = metav1.NewTime(status.Since)
			restarts := func(known metav1.Condition) bool {
				return known.Type == made.Type && !known.LastTransitionTime.Equal(&made.LastTransitionTime)
			}
			rest := slices.DeleteFunc(after, restarts) // Otherwise the old time would stay.
			changed, after = changed || len(rest) < len(after), rest
		}
		changed = controller.SetConditions(&after, generation, made) || changed
	}
	if changed {
		*conditions = after
	}
	return changed
}
