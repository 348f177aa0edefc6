package plans

import (
	"errors"
	"fmt"
	"strings"

	"github.com/bellerophon-io/bellerophon/operators"
	"k8s.io/apimachinery/pkg/util/uuid"
)

// RunAnnotation requests a plan. Its value is the name of the plan, or the name, a slash and any text:
// "backup/2026-11-24". Each new value is one request. A request waits for the plan that runs. To request a
// plan again, change the text, or remove the annotation and set it later.
const RunAnnotation = "bellerophon.io/run-plan"

// CancelAnnotation cancels one execution of a plan. Its value is the uid of the execution, which the status
// has. Steps that were done are not undone.
const CancelAnnotation = "bellerophon.io/cancel-plan"

// plan returns the plan with a name, or nil.
func (r *Runner[O]) plan(name string) *Plan[O] {
	for _, plan := range r.plans {
		if plan.name == name {
			return plan
		}
	}
	return nil
}

// reacts reports whether a change of the inputs of a plan lets it run.
func (r *Runner[O]) reacts(plan *Plan[O], deployed bool) bool {
	if plan.onChange || plan == r.plans[0] && !deployed {
		return true
	}
	for _, other := range r.plans {
		if other.onChange {
			return false
		}
	}
	return plan == r.plans[0]
}

// choose returns the plan that runs now, or nil. It starts and ends plans in the status. An error does not
// keep other plans from running.
func (e *engine[O]) choose() (*Plan[O], error) {
	if e.status.Active() {
		plan, err := e.current()
		if plan != nil || err != nil {
			return plan, err
		}
	}
	var wrong error
	if request := e.owner.GetAnnotations()[RunAnnotation]; request != e.status.Request {
		name, _, _ := strings.Cut(request, "/")
		plan := e.runner.plan(name)
		if plan != nil {
			e.status.Request = request
			return e.start(plan)
		}
		if e.status.Request = request; request != "" {
			wrong = operators.Terminal(fmt.Errorf("the annotation %s requests the plan %q, and there is no such plan", RunAnnotation, name))
		}
	}
	for i, plan := range e.runner.plans {
		if i > 0 && !e.status.Deployed || !e.runner.reacts(plan, e.status.Deployed) {
			continue
		}
		digest, err := plan.digest(e.owner)
		if err != nil {
			return nil, errors.Join(wrong, err)
		}
		last, known := e.status.Inputs[plan.name]
		switch {
		case known && last == digest:
		case !known && e.status.Deployed: // The plan is newer than the object.
			e.record(plan, digest)
		default:
			started, err := e.start(plan)
			return started, errors.Join(wrong, err)
		}
	}
	return nil, wrong
}

// current returns the plan that runs. It returns nil if the plan was cancelled, or does not exist.
func (e *engine[O]) current() (*Plan[O], error) {
	plan := e.runner.plan(e.status.Plan)
	switch {
	case e.status.UID != "" && e.owner.GetAnnotations()[CancelAnnotation] == string(e.status.UID):
		e.end(Cancelled, "it was cancelled by an annotation")
		return nil, nil
	case plan == nil:
		e.end(FatalError, fmt.Sprintf("the program has no plan %q", e.status.Plan))
		return nil, nil
	case !plan.finishFirst && e.runner.reacts(plan, e.status.Deployed):
		digest, err := plan.digest(e.owner)
		if err != nil {
			return nil, err
		}
		if digest != e.status.Inputs[plan.name] {
			return e.start(plan)
		}
	}
	e.align(plan)
	return plan, nil
}

// mostStarts bounds the plans that start in one call. Inputs that differ at each call would otherwise keep
// a call busy for good. The error is retried after a backoff, which slows the writes of the status down.
const mostStarts = 8

// start starts an execution of a plan, and returns the plan.
func (e *engine[O]) start(plan *Plan[O]) (*Plan[O], error) {
	if e.starts++; e.starts > mostStarts {
		return nil, fmt.Errorf("plan %s starts again and again; do its inputs depend on more than the object?", plan.name)
	}
	digests := []*Plan[O]{plan}
	if plan == e.runner.plans[0] { // It covers what the others do.
		digests = e.runner.plans
	}
	for _, each := range digests {
		if !each.onChange && each != e.runner.plans[0] {
			continue // Its inputs do not matter.
		}
		digest, err := each.digest(e.owner)
		if err != nil {
			return nil, err
		}
		e.record(each, digest)
	}
	e.status.Plan, e.status.UID, e.status.State, e.status.Message = plan.name, uuid.NewUUID(), Pending, ""
	e.status.StartedAt, e.status.FinishedAt, e.status.Phases = now(), nil, nil
	e.align(plan)
	return plan, nil
}

// record keeps the digest of the inputs of a plan.
func (e *engine[O]) record(plan *Plan[O], digest string) {
	if e.status.Inputs == nil {
		e.status.Inputs = map[string]string{}
	}
	e.status.Inputs[plan.name] = digest
}

// end ends the execution that runs.
func (e *engine[O]) end(state State, message string) {
	e.status.State, e.status.Message, e.status.FinishedAt = state, shortened(message), now()
	for i := range e.status.Phases {
		phase := &e.status.Phases[i]
		for j := range phase.Steps {
			if step := &phase.Steps[j]; state == Cancelled && (step.State == InProgress || step.State == Errored) {
				step.State, step.FinishedAt = Cancelled, now()
			}
		}
		phase.State = stateOf(phase.Steps)
	}
}

// align copies the phases and the steps of the plan into the status. Another version of the program may have
// declared other ones. Known steps keep their state.
func (e *engine[O]) align(plan *Plan[O]) {
	known := map[[2]string]StepStatus{}
	for _, phase := range e.status.Phases {
		for _, step := range phase.Steps {
			known[[2]string{phase.Name, step.Name}] = step
		}
	}
	e.status.Phases = nil
	for _, phase := range plan.phases {
		aligned := PhaseStatus{Name: phase.name}
		for _, step := range phase.steps {
			status, is := known[[2]string{phase.name, step.name}]
			if !is {
				status = StepStatus{Name: step.name, State: Pending}
			}
			aligned.Steps = append(aligned.Steps, status)
		}
		aligned.State = stateOf(aligned.Steps)
		e.status.Phases = append(e.status.Phases, aligned)
	}
}
