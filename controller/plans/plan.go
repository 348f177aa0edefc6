package plans

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/controller/dependents"
	"github.com/bellerophon-io/bellerophon/streams"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
)

// Plan is a procedure on objects of type O. Its methods configure it, and must be called before
// [NewRunner].
type Plan[O streams.Object] struct {
	name        string
	phases      []*Phase[O]
	parallel    bool
	onChange    bool
	finishFirst bool
	inputs      func(owner O) any // nil for the generation
}

// NewPlan creates a plan whose phases run one after the other.
func NewPlan[O streams.Object](name string, phases ...*Phase[O]) *Plan[O] {
	return &Plan[O]{name: name, phases: phases}
}

// Parallel lets all phases run at once.
func (p *Plan[O]) Parallel() *Plan[O] {
	p.parallel = true
	return p
}

// OnChange lets the plan run when its inputs changed since it last started. inputs returns the fields of the
// owner that the plan depends on, as a value that can be encoded as JSON. If inputs is nil, the generation
// counts. Several plans whose inputs changed run one after the other, in the order of [NewRunner].
//
// The status keeps a digest of the inputs. Do not let them include secrets.
func (p *Plan[O]) OnChange(inputs func(owner O) any) *Plan[O] {
	p.onChange, p.inputs = true, inputs
	return p
}

// FinishFirst lets the plan finish if its inputs change while it runs, and then start again. Without it,
// such a change starts the plan anew at once. Steps always see the current owner.
func (p *Plan[O]) FinishFirst() *Plan[O] {
	p.finishFirst = true
	return p
}

// digest returns a digest of the inputs.
func (p *Plan[O]) digest(owner O) (string, error) {
	if p.inputs == nil {
		return strconv.FormatInt(owner.GetGeneration(), 10), nil
	}
	encoded, err := json.Marshal(p.inputs(owner))
	if err != nil {
		return "", fmt.Errorf("plan %s: encoding its inputs: %w", p.name, err)
	}
	sum := sha256.Sum256(encoded)
	return hex.EncodeToString(sum[:8]), nil
}

// validate returns an error for a plan that is declared wrongly.
func (p *Plan[O]) validate() error {
	if err := validName("a plan", p.name); err != nil {
		return err
	}
	if len(p.phases) == 0 {
		return fmt.Errorf("plan %q has no phases; give at least one", p.name)
	}
	phases := map[string]bool{}
	for _, phase := range p.phases {
		if phase == nil {
			return fmt.Errorf("plan %q has a phase that is nil", p.name)
		}
		if err := validName("a phase of plan "+p.name, phase.name); err != nil {
			return err
		}
		if phases[phase.name] {
			return fmt.Errorf("plan %q has two phases with the name %q; choose different names", p.name, phase.name)
		}
		phases[phase.name] = true
		steps := map[string]bool{}
		for _, step := range phase.steps {
			of := fmt.Sprintf("phase %q of plan %q", phase.name, p.name)
			if err := validName("a step of "+of, step.name); err != nil {
				return err
			}
			switch {
			case step.wrong != nil:
				return fmt.Errorf("step %q in %s: %w", step.name, of, step.wrong)
			case step.take == nil:
				return fmt.Errorf("step %q in %s has nothing to do; give a set or a function", step.name, of)
			case steps[step.name]:
				return fmt.Errorf("%s has two steps with the name %q; choose different names", of, step.name)
			}
			steps[step.name] = true
		}
		if len(phase.steps) == 0 {
			return fmt.Errorf("phase %q of plan %q has no steps; give at least one", phase.name, p.name)
		}
	}
	return nil
}

func validName(what, name string) error {
	if wrong := validation.IsDNS1123Label(name); len(wrong) > 0 {
		return fmt.Errorf("%s has the name %q; it must be at most 63 lower-case letters, digits and '-'", what, name)
	}
	return nil
}

// Phase is a part of a [Plan].
type Phase[O streams.Object] struct {
	name     string
	steps    []Step[O]
	parallel bool
}

// NewPhase creates a phase whose steps run one after the other.
func NewPhase[O streams.Object](name string, steps ...Step[O]) *Phase[O] {
	return &Phase[O]{name: name, steps: steps}
}

// Parallel lets all steps run at once.
func (p *Phase[O]) Parallel() *Phase[O] {
	p.parallel = true
	return p
}

// Step is a part of a [Phase]: see [Apply], [Delete] and [Run].
type Step[O streams.Object] struct {
	name     string
	set      *dependents.Set[O] // whose kinds the step needs, or nil
	take     take[O]
	when     func(owner O) bool // nil for always
	unwanted take[O]            // in place of take while when is false; nil for nothing
	deadline time.Duration      // 0 for none
	wrong    error
}

// Deadline bounds how long the step may take from its start, over restarts of the process: 1 s and above. A
// step that is not done then ends the plan as FATAL_ERROR, with the reason [DeadlineExceeded] and what it
// waited for. The step is called a last time when the deadline has come, or after a backoff if it fails.
func (s Step[O]) Deadline(deadline time.Duration) Step[O] {
	if s.deadline = deadline; deadline < time.Second {
		s.wrong = fmt.Errorf("Deadline is %v; allowed is 1s and above", deadline)
	}
	return s
}

// When lets the step depend on a condition. While it is false, a step of [Apply] deletes the children of its
// set, and is done when they are gone. Other steps are done at once.
func (s Step[O]) When(condition func(owner O) bool) Step[O] {
	if s.when = condition; condition == nil {
		s.wrong = errors.New("When has no condition; give a function or leave When out")
	}
	return s
}

// call takes the step.
func (s Step[O]) call(ctx context.Context, c *controller.Client, owner O, execution Execution) (Progress, error) {
	switch {
	case s.when == nil || s.when(owner):
		return s.take(ctx, c, owner, execution)
	case s.unwanted != nil:
		return s.unwanted(ctx, c, owner, execution)
	}
	return Progress{Done: true}, nil
}

// Progress is how far a step of [Run] is.
type Progress struct {
	Done      bool
	Message   string        // what it waits for
	LookAgain time.Duration // when to call the function again, if no event does so earlier
}

// Execution identifies one execution of a plan.
type Execution struct {
	Plan string
	UID  types.UID // for example for the name of what the step makes outside of the cluster
}

// Apply applies a set of dependents, and waits until all are ready. Several plans may apply one set. A plan
// that is complete no longer repairs its children: let the reconciler call the set where that is wanted.
func Apply[O streams.Object](name string, set *dependents.Set[O]) Step[O] {
	made := ofSet(name, set, func(ctx context.Context, c *controller.Client, owner O, _ Execution) (Progress, error) {
		return progressOf(set.Reconcile(ctx, c, owner), dependents.Outcome.Ready)
	})
	made.unwanted = Delete(name, set).take
	return made
}

// Delete deletes the children of a set of dependents, and waits until all are gone.
func Delete[O streams.Object](name string, set *dependents.Set[O]) Step[O] {
	return ofSet(name, set, func(ctx context.Context, c *controller.Client, owner O, _ Execution) (Progress, error) {
		return progressOf(set.Delete(ctx, c, owner), dependents.Outcome.Gone)
	})
}

type take[O streams.Object] func(ctx context.Context, c *controller.Client, owner O, execution Execution) (Progress, error)

func ofSet[O streams.Object](name string, set *dependents.Set[O], take take[O]) Step[O] {
	if set == nil {
		return Step[O]{name: name}
	}
	return Step[O]{name: name, set: set, take: take}
}

// progressOf returns the progress of a step on a set of dependents.
func progressOf(outcome dependents.Outcome, isDone func(dependents.Outcome) bool) (Progress, error) {
	if _, err := outcome.Result(); err != nil {
		return Progress{}, err
	}
	return Progress{Done: isDone(outcome), Message: outcome.Message(), LookAgain: outcome.RequeueAfter}, nil
}

// Run calls a function until it is done. The function must not wait: it says how far it is, and is called
// again at the next event of the owner or of its children, or after Progress.LookAgain. If the process
// stops, it may be called again although it was done, and must succeed then. An error is retried after a
// backoff, unless it is an [operators.Terminal] one: that ends the plan.
func Run[O streams.Object](name string, function func(ctx context.Context, owner O, execution Execution) (Progress, error)) Step[O] {
	if function == nil {
		return Step[O]{name: name}
	}
	return Step[O]{name: name, take: func(ctx context.Context, _ *controller.Client, owner O, execution Execution) (Progress, error) {
		return function(ctx, owner, execution)
	}}
}
