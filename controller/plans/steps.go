package plans

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/operators"
	"github.com/bellerophon-io/bellerophon/streams"
)

// mostAtOnce bounds the steps of one object that run at once.
const mostAtOnce = 8

// stateOf returns the state of a phase with the given steps.
func stateOf(steps []StepStatus) State {
	count := map[State]int{}
	for _, step := range steps {
		count[step.State]++
	}
	for _, worst := range []State{FatalError, Cancelled, Errored} {
		if count[worst] > 0 {
			return worst
		}
	}
	switch len(steps) {
	case count[Complete]:
		return Complete
	case count[Pending]:
		return Pending
	}
	return InProgress
}

// advance lets all steps begin that may, and sets the states of the phases and of the plan. It reports
// whether a step begins.
func (e *engine[O]) advance(plan *Plan[O]) (begins bool) {
	for i := range e.status.Phases {
		phase := &e.status.Phases[i]
		for j := range phase.Steps {
			step := &phase.Steps[j]
			if step.State == Pending && !e.hasFatal() {
				step.State, step.StartedAt, begins = InProgress, now(), true
			}
			if step.State != Complete && !plan.phases[i].parallel {
				break
			}
		}
		if phase.State = stateOf(phase.Steps); phase.State != Complete && !plan.parallel {
			break
		}
	}
	var all []StepStatus
	for _, phase := range e.status.Phases {
		all = append(all, phase.Steps...)
	}
	state, message := stateOf(all), ""
	for i, phase := range e.status.Phases {
		for _, step := range phase.Steps {
			if message == "" && step.Message != "" && step.State == state {
				message = fmt.Sprintf("%s/%s: %s", e.status.Phases[i].Name, step.Name, step.Message)
			}
		}
	}
	switch state {
	case Complete:
		e.status.Deployed = e.status.Deployed || plan == e.runner.plans[0]
		e.end(Complete, "")
	case FatalError:
		e.end(FatalError, message)
	default:
		e.status.State, e.status.Message = state, shortened(message)
	}
	return begins
}

func (e *engine[O]) hasFatal() bool {
	for _, phase := range e.status.Phases {
		for _, step := range phase.Steps {
			if step.State == FatalError {
				return true
			}
		}
	}
	return false
}

// result is what a step returned.
type result struct {
	progress Progress
	err      error
}

// running is a step that is taken.
type running[O streams.Object] struct {
	status *StepStatus
	step   Step[O]
	name   string
	result result
}

// left returns the time that is left until the deadline of the step, or 0 without one. late reports that the
// deadline has come, and that the step is not done.
func (r *running[O]) left() (left time.Duration, late bool) {
	if r.step.deadline == 0 || r.status.StartedAt == nil || r.result.err == nil && r.result.progress.Done {
		return 0, false
	}
	left = time.Until(r.status.StartedAt.Add(r.step.deadline))
	return max(left, 0), left <= 0
}

// lateness describes what a step waited for when its deadline came.
func (r *running[O]) lateness() string {
	waited := r.result.progress.Message
	if r.result.err != nil {
		waited = r.result.err.Error()
	}
	if waited != "" {
		waited = ": " + waited
	}
	return fmt.Sprintf("it was not done within its deadline of %v%s", r.step.deadline, waited)
}

// earlier returns the shorter of two times, where 0 stands for none.
func earlier(a, b time.Duration) time.Duration {
	if a <= 0 || b <= 0 {
		return max(a, b, 0)
	}
	return min(a, b)
}

// take takes the steps that run, in parallel, and sets their states. It returns when the first of them
// wants to be called again, and the errors that are to be retried.
func (e *engine[O]) take(ctx context.Context, plan *Plan[O]) (after time.Duration, err error) {
	var steps []*running[O]
	for i := range e.status.Phases {
		for j := range e.status.Phases[i].Steps {
			if status := &e.status.Phases[i].Steps[j]; status.State == InProgress || status.State == Errored {
				steps = append(steps, &running[O]{status: status, step: plan.phases[i].steps[j], name: e.status.Phases[i].Name + "/" + status.Name})
			}
		}
	}
	execution := Execution{Plan: plan.name, UID: e.status.UID}
	call := func(ctx context.Context, one *running[O]) {
		one.result.err = errors.New("it ended its goroutine") // As FailNow of package testing does.
		if panicked := lifecycle.Guard(func() error {
			one.result.progress, one.result.err = one.step.call(ctx, e.client, e.owner, execution)
			return nil
		}); panicked != nil {
			one.result.err = panicked
		}
	}
	if len(steps) == 1 {
		call(ctx, steps[0])
	} else {
		group, room := lifecycle.New(ctx), make(chan struct{}, mostAtOnce)
		for _, one := range steps {
			room <- struct{}{}
			group.Go(one.name, func(ctx context.Context) error {
				defer func() { <-room }()
				call(ctx, one)
				return nil
			})
		}
		_ = group.Wait() // Its functions return nil.
	}
	var errs []error
	for _, one := range steps {
		left, late := one.left()
		switch progress, failure := one.result.progress, one.result.err; {
		case failure != nil && operators.IsTerminal(failure):
			one.status.State, one.status.Message, one.status.FinishedAt = FatalError, shortened(failure.Error()), now()
			e.fatal = errors.Join(e.fatal, fmt.Errorf("plan %s: step %s: %w", plan.name, one.name, failure))
		case late:
			one.status.State, one.status.Reason, one.status.FinishedAt = FatalError, DeadlineExceeded, now()
			one.status.Message = shortened(one.lateness())
			e.fatal = errors.Join(e.fatal, fmt.Errorf("plan %s: step %s: %s", plan.name, one.name, one.status.Message))
		case failure != nil:
			one.status.State, one.status.Message = Errored, shortened(failure.Error())
			errs = append(errs, fmt.Errorf("plan %s: step %s: %w", plan.name, one.name, failure))
		case progress.Done:
			one.status.State, one.status.Message, one.status.FinishedAt = Complete, "", now()
		default:
			one.status.State, one.status.Message = InProgress, shortened(progress.Message)
			after = earlier(after, earlier(progress.LookAgain, left))
		}
	}
	return after, errors.Join(errs...)
}
