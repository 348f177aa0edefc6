package dependents

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/operators"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// State is the state of a dependent after a call of [Set.Reconcile] or [Set.Delete].
type State string

// The states of a dependent.
const (
	Ready       State = "Ready"       // its children are as desired, and ready
	Absent      State = "Absent"      // it is not desired, and has no children
	Progressing State = "Progressing" // its children are as desired, and not all of them are ready
	Waiting     State = "Waiting"     // it waits for other dependents, or for what Status.Message says: see [NotYet]
	Deleting    State = "Deleting"    // its children are being deleted
	Failed      State = "Failed"      // see Status.Err
)

// Status is the state of one dependent.
type Status struct {
	Name    string
	State   State
	Message string   // why it is not ready
	Waits   []string // for Waiting: the names of the dependents that it waits for
	Err     error    // for Failed

	// Permanent reports, for Failed, that another attempt cannot help: a ready check says Failed, or a
	// function returned an error of [operators.Terminal].
	Permanent bool

	// Since is when the dependent began to wait, if it has a [Children.Deadline] and is not ready.
	Since time.Time

	lookAgain time.Duration
	bounded   bool // it has a deadline
}

// Outcome is the result of a call of [Set.Reconcile] or [Set.Delete].
type Outcome struct {
	// Dependents are in the order of [NewSet]. After them come former ones whose children are being
	// deleted.
	Dependents []Status

	// RequeueAfter is the earliest time after which a ready check asks to look again, or 0.
	RequeueAfter time.Duration
}

// Ready reports whether all dependents are as desired: ready, or absent.
func (o Outcome) Ready() bool {
	return !slices.ContainsFunc(o.Dependents, func(s Status) bool { return s.State != Ready && s.State != Absent })
}

// Gone reports whether no dependent has children.
func (o Outcome) Gone() bool {
	return !slices.ContainsFunc(o.Dependents, func(s Status) bool { return s.State != Absent })
}

// Err returns the errors of all dependents that failed, or nil.
func (o Outcome) Err() error {
	var errs []error
	for _, status := range o.Dependents {
		if status.Err != nil {
			errs = append(errs, fmt.Errorf("dependent %s: %w", status.Name, status.Err))
		}
	}
	return errors.Join(errs...)
}

// Result returns what a [controller.TypedReconciler] should return. A failure is retried after a backoff,
// unless all failures are permanent. Waiting needs no time: the event that ends it makes a request.
func (o Outcome) Result() (controller.Result, error) {
	result, err := controller.Result{RequeueAfter: o.RequeueAfter}, o.Err()
	if err == nil || !slices.ContainsFunc(o.Dependents, func(s Status) bool { return s.Err != nil && !s.Permanent }) {
		return result, operators.Terminal(err)
	}
	if operators.IsTerminal(err) { // The failures that are not permanent need a retry.
		return result, errors.New(err.Error())
	}
	return result, err
}

// Message describes all dependents that are neither ready nor absent, for people.
func (o Outcome) Message() string {
	var parts []string
	for _, status := range o.Dependents {
		switch status.State {
		case Ready, Absent:
		case Waiting:
			if len(status.Waits) == 0 {
				parts = append(parts, fmt.Sprintf("%s waits: %s", status.Name, status.Message))
				continue
			}
			parts = append(parts, fmt.Sprintf("%s waits for %s", status.Name, strings.Join(status.Waits, ", ")))
		default:
			parts = append(parts, fmt.Sprintf("%s is %s: %s", status.Name, strings.ToLower(string(status.State)), status.Message))
		}
	}
	return strings.Join(parts, "; ")
}

// Condition returns a condition of the given type for the status of the owner: see
// [controller.SetConditions]. It is true if all dependents are ready. Its reason is the worst state.
func (o Outcome) Condition(conditionType string) metav1.Condition {
	made := metav1.Condition{Type: conditionType, Status: metav1.ConditionFalse, Message: o.Message()}
	for _, state := range []State{Failed, Deleting, Progressing, Waiting} {
		if slices.ContainsFunc(o.Dependents, func(s Status) bool { return s.State == state }) {
			made.Reason = "Dependents" + string(state)
			return made
		}
	}
	made.Status, made.Reason = metav1.ConditionTrue, "DependentsReady"
	return made
}
