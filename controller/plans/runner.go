package plans

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/controller/dependents"
	"github.com/bellerophon-io/bellerophon/operators"
	"github.com/bellerophon-io/bellerophon/streams"
	"k8s.io/apimachinery/pkg/api/equality"
)

// Runner runs plans on objects of type O. It has no state of its own, and may be used by many goroutines.
type Runner[O streams.Object] struct {
	status func(owner O) *Status
	plans  []*Plan[O]
	sets   []*dependents.Set[O]
}

// NewRunner creates a runner. status returns the field of an object that keeps the progress. The kind must
// have the subresource status. The first plan is the one that runs for a new object.
func NewRunner[O streams.Object](status func(owner O) *Status, plans ...*Plan[O]) (*Runner[O], error) {
	r := &Runner[O]{status: status, plans: plans}
	switch {
	case status == nil:
		return nil, errors.New("plans: the runner has no function for the status; give one")
	case len(plans) == 0:
		return nil, errors.New("plans: the runner has no plans; give at least one")
	}
	known, sets := map[string]bool{}, map[string]*dependents.Set[O]{}
	for _, plan := range plans {
		if plan == nil {
			return nil, errors.New("plans: a plan is nil")
		}
		if err := plan.validate(); err != nil {
			return nil, fmt.Errorf("plans: %w", err)
		}
		if known[plan.name] {
			return nil, fmt.Errorf("plans: two plans have the name %q; choose different names", plan.name)
		}
		known[plan.name] = true
		for _, phase := range plan.phases {
			for _, step := range phase.steps {
				switch set := step.set; {
				case set == nil || sets[set.Name()] == set:
				case sets[set.Name()] != nil:
					return nil, fmt.Errorf("plans: two sets of dependents have the name %q; each would delete the children of the other", set.Name())
				default:
					sets[set.Name()] = set
					r.sets = append(r.sets, set)
				}
			}
		}
	}
	return r, nil
}

// Owns returns the options that make a controller watch the kinds of all sets: see [dependents.Set.Owns].
func (r *Runner[O]) Owns() []controller.Option {
	var all []controller.Option
	for _, set := range r.sets {
		all = append(all, set.Owns()...)
	}
	return all
}

// Reconcile starts and continues the plans of an object, as far as that can be done now. It returns the
// object with the status that it wrote, for other writes of the reconciler, and what the reconciler should
// return. An object that is being deleted has no plans.
func (r *Runner[O]) Reconcile(ctx context.Context, c *controller.Client, owner O) (O, controller.Result, error) {
	if owner.GetDeletionTimestamp() != nil {
		return owner, controller.Result{}, nil
	}
	if r.status(owner) == nil {
		return owner, controller.Result{}, operators.Terminal(errors.New("plans: the function for the status returned nil; return a pointer to a field"))
	}
	e := &engine[O]{runner: r, client: c, owner: owner, status: r.status(owner).DeepCopy()}
	after, err := e.run(ctx)
	return e.owner, controller.Result{RequeueAfter: after}, err
}

// engine runs the plans of one object in one call.
type engine[O streams.Object] struct {
	runner *Runner[O]
	client *controller.Client
	owner  O       // as the API server has it
	status *Status // as it should be
	starts int
	fatal  error // that ended a plan in this call
}

// run chooses plans and takes their steps, until nothing more can be done now.
func (e *engine[O]) run(ctx context.Context) (time.Duration, error) {
	for {
		plan, err := e.choose()
		if plan != nil {
			e.advance(plan)
		}
		if failed := e.store(ctx); failed != nil {
			return 0, failed
		}
		switch {
		case plan == nil:
			return 0, errors.Join(err, operators.Terminal(e.fatal))
		case !e.status.Active():
			continue
		}
		after, err := e.take(ctx, plan)
		if begins := e.advance(plan); !begins && e.status.Active() {
			return after, errors.Join(e.store(ctx), err)
		}
	}
}

// store writes the status, if it changed.
func (e *engine[O]) store(ctx context.Context) error {
	if equality.Semantic.DeepEqual(e.runner.status(e.owner), e.status) {
		return nil
	}
	changed := e.owner.DeepCopyObject().(O)
	e.status.DeepCopyInto(e.runner.status(changed))
	// The patch is conditional on the version: two processes must not both go on.
	written, err := controller.Patch(ctx, e.client, changed, controller.MergeFrom(e.owner), controller.Subresource("status"))
	if err != nil {
		return fmt.Errorf("storing the progress of plan %s: %w", e.status.Plan, err)
	}
	e.owner = written
	if !equality.Semantic.DeepEqual(e.runner.status(written), e.status) {
		return operators.Terminal(errors.New("the API server did not store the progress of the plan; does the definition of the kind have the fields of plans.Status?"))
	}
	return nil
}
