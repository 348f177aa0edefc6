package plans

import (
	"fmt"
	"maps"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// State is the state of a plan, a phase or a step.
// +kubebuilder:validation:Enum=PENDING;IN_PROGRESS;COMPLETE;ERROR;FATAL_ERROR;CANCELLED
type State string

// The states of plans, phases and steps.
const (
	Pending    State = "PENDING"     // it has not started
	InProgress State = "IN_PROGRESS" // it runs
	Complete   State = "COMPLETE"    // it is done
	Errored    State = "ERROR"       // it failed, and is retried
	FatalError State = "FATAL_ERROR" // it failed, and is not retried
	Cancelled  State = "CANCELLED"   // it was cancelled before it was done
)

// Status is the progress of the plan that runs, or of the last one. It is a field of the status of an
// object. Only the [Runner] changes it.
type Status struct {
	// Plan is the name of the plan.
	Plan string `json:"plan,omitempty"`
	// UID identifies this execution of the plan.
	UID types.UID `json:"uid,omitempty"`
	// State is the state of the plan.
	State State `json:"state,omitempty"`
	// Message explains the state, for people.
	Message string `json:"message,omitempty"`
	// StartedAt is when the execution started.
	StartedAt *metav1.Time `json:"startedAt,omitempty"`
	// FinishedAt is when the execution ended.
	FinishedAt *metav1.Time `json:"finishedAt,omitempty"`
	// Phases are the phases of the plan, in their order.
	Phases []PhaseStatus `json:"phases,omitempty"`

	// Deployed reports whether the first plan has completed once.
	Deployed bool `json:"deployed,omitempty"`
	// Inputs has a digest of the inputs of each plan when it last started.
	Inputs map[string]string `json:"inputs,omitempty"`
	// Request is the last request for a plan that was handled.
	Request string `json:"request,omitempty"`
}

// PhaseStatus is the progress of a phase.
type PhaseStatus struct {
	// Name is the name of the phase.
	Name string `json:"name"`
	// State is the state of the phase.
	State State `json:"state"`
	// Steps are the steps of the phase, in their order.
	Steps []StepStatus `json:"steps,omitempty"`
}

// StepStatus is the progress of a step.
type StepStatus struct {
	// Name is the name of the step.
	Name string `json:"name"`
	// State is the state of the step.
	State State `json:"state"`
	// Message says what the step waits for, or how it failed.
	Message string `json:"message,omitempty"`
	// Reason is DeadlineExceeded if the step was not done within its deadline.
	Reason string `json:"reason,omitempty"`
	// StartedAt is when the step started.
	StartedAt *metav1.Time `json:"startedAt,omitempty"`
	// FinishedAt is when the step ended.
	FinishedAt *metav1.Time `json:"finishedAt,omitempty"`
}

// DeadlineExceeded is the reason of a step that was not done within its deadline, and of the condition of its
// plan.
const DeadlineExceeded = "DeadlineExceeded"

// Condition returns a condition of the given type for the status of the object: see
// [controller.SetConditions]. It is true if the plan is complete. Otherwise its message names the step that
// waits or failed, and since when. Its reason is the state of the plan, such as PlanInProgress, or
// [DeadlineExceeded].
func (s *Status) Condition(conditionType string) metav1.Condition {
	made := metav1.Condition{Type: conditionType, Status: metav1.ConditionFalse, Reason: "PlanPending", Message: s.Message}
	switch s.State {
	case Complete:
		made.Status, made.Reason = metav1.ConditionTrue, "PlanComplete"
		return made
	case InProgress:
		made.Reason = "PlanInProgress"
	case Errored:
		made.Reason = "PlanError"
	case FatalError:
		made.Reason = "PlanFatalError"
	case Cancelled:
		made.Reason = "PlanCancelled"
	}
	for _, phase := range s.Phases {
		for _, step := range phase.Steps {
			if step.State != s.State || step.StartedAt == nil {
				continue
			}
			if step.Reason != "" {
				made.Reason = step.Reason
			}
			since := step.StartedAt
			if step.FinishedAt != nil {
				since = step.FinishedAt
			}
			made.Message = fmt.Sprintf("plan %s: step %s/%s is %s since %s", s.Plan, phase.Name, step.Name, step.State, since.UTC().Format(time.RFC3339))
			if step.Message != "" {
				made.Message += ": " + step.Message
			}
			return made
		}
	}
	return made
}

// Active reports whether a plan runs.
func (s *Status) Active() bool {
	return s.State == Pending || s.State == InProgress || s.State == Errored
}

// DeepCopyInto copies the status into out.
func (s *Status) DeepCopyInto(out *Status) {
	*out = *s
	out.StartedAt, out.FinishedAt = s.StartedAt.DeepCopy(), s.FinishedAt.DeepCopy()
	out.Inputs = maps.Clone(s.Inputs)
	if out.Phases = slices.Clone(s.Phases); out.Phases != nil {
		for i := range s.Phases {
			s.Phases[i].DeepCopyInto(&out.Phases[i])
		}
	}
}

// DeepCopy returns a copy of the status.
func (s *Status) DeepCopy() *Status {
	if s == nil {
		return nil
	}
	out := &Status{}
	s.DeepCopyInto(out)
	return out
}

// DeepCopyInto copies the status into out.
func (s *PhaseStatus) DeepCopyInto(out *PhaseStatus) {
	*out = *s
	if out.Steps = slices.Clone(s.Steps); out.Steps != nil {
		for i := range s.Steps {
			s.Steps[i].DeepCopyInto(&out.Steps[i])
		}
	}
}

// DeepCopyInto copies the status into out.
func (s *StepStatus) DeepCopyInto(out *StepStatus) {
	*out = *s
	out.StartedAt, out.FinishedAt = s.StartedAt.DeepCopy(), s.FinishedAt.DeepCopy()
}

// now returns the current time as it is stored: in seconds.
func now() *metav1.Time { return new(metav1.NewTime(time.Now().Truncate(time.Second))) }

// longestMessage bounds a message of the status, in bytes.
const longestMessage = 1024

// shortened returns a message that is not too long.
func shortened(message string) string {
	if len(message) <= longestMessage {
		return message
	}
	cut := longestMessage
	for cut > 0 && message[cut]&0xc0 == 0x80 { // Not within a character.
		cut--
	}
	return message[:cut] + "…"
}
