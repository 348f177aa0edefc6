package faults

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

const (
	// stuckAfter is how long a step may take while an event is held, before the user goes on.
	stuckAfter = 2 * time.Second
	// together is the number of trials whose events are held at the same time.
	together = 8
)

// Stale runs the workload for each event that the operator receives, with three patterns:
//
//   - The object of the event stays at its old revision while the world goes on.
//   - The event is never seen, because only a later event, the last state or a relist follows.
//   - The operator restarts on the view of the cluster before the event.
//
// The end state must be as without a fault. No write may go to an object that the operator has seen
// in an older state only. A restart on an older view must not cost an object of the present, not even
// if the operator creates it again.
//
// The older view is what the API server's storage has of that revision: lists at the exact revision,
// and watches that stop there until the view ends.
func Stale(ctx context.Context, config *rest.Config, subject Subject, options Options) (*Report, error) {
	return run(ctx, config, subject, options, "stale state", func(w *world, undisturbed *reference, report *Report) error {
		for _, each := range []struct {
			mode   mode
			atOnce int
			run    func(context.Context, *reference, mode, []string) ([]Outcome, error)
		}{
			{heldUntilEnd, together, w.held}, {lastOnly, together, w.held}, {endOnly, together, w.held}, {relistOnly, 1, w.held}, {olderView, 40, w.travel},
		} {
			var all []string
			for _, event := range undisturbed.events {
				all = append(all, event+", "+string(each.mode))
			}
			options := w.options
			if options.Sample > 0 {
				options.Sample = max(options.Sample/5, 1)
			}
			err := report.each(options, all, each.atOnce, func(names []string) ([]Outcome, error) {
				events := make([]string, len(names))
				for i, name := range names {
					events[i], _, _ = strings.Cut(name, ", ")
				}
				return each.run(ctx, undisturbed, each.mode, events)
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// held runs the workload in several namespaces, with one event held in each.
func (w *world) held(ctx context.Context, reference *reference, mode mode, events []string) (outcomes []Outcome, err error) {
	h := newHolder()
	w.edit(h)
	defer w.edit(nil)
	defer h.release()
	var trials []*trial
	defer func() {
		for _, t := range trials {
			err = errors.Join(err, t.end())
		}
	}()
	for _, name := range events {
		t, err := w.newTrial(ctx)
		if err != nil {
			return nil, err
		}
		trials = append(trials, t)
		h.mu.Lock()
		h.holds[t.user.Namespace] = &hold{event: name, mode: mode, waiting: map[string][]*event{}}
		h.mu.Unlock()
	}
	left, failures := make([][]Step, len(trials)), make([]error, len(trials))
	group := lifecycle.New(ctx)
	for i, t := range trials {
		group.Go("trial", func(ctx context.Context) error {
			left[i], failures[i] = t.drift(ctx)
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	h.release()
	group = lifecycle.New(ctx)
	for i, t := range trials {
		group.Go("trial", func(ctx context.Context) error {
			for _, step := range left[i] {
				if failures[i] == nil {
					failures[i] = t.step(ctx, step)
				}
			}
			if failures[i] == nil {
				failures[i] = reference.finish(ctx, t)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	for i, t := range trials {
		h.mu.Lock()
		struck := h.reached[t.user.Namespace]
		h.mu.Unlock()
		outcomes = append(outcomes, w.judge(struck, failures[i], t.user.Namespace))
	}
	return outcomes, context.Cause(ctx)
}

// judge returns the outcome of a trial.
func (w *world) judge(struck bool, failure error, namespace string) Outcome {
	outcome := Outcome{Struck: struck || failure != nil}
	w.wire.mu.Lock()
	defer w.wire.mu.Unlock()
	if at := slices.IndexFunc(w.wire.violations, func(v string) bool { return inNamespace(v, namespace) }); at >= 0 {
		failure = errors.Join(failure, errors.New("it wrote on an older view: "+w.wire.violations[at]))
	}
	if failure != nil {
		outcome.Failure = failure.Error()
	}
	return outcome
}

// drift runs the workload as a user who does not wait long. If a step needs what the operator has not done,
// drift returns that step and the later ones, after one that only waits.
func (t *trial) drift(ctx context.Context) (left []Step, err error) {
	for i, step := range t.subject.Workload {
		if err := step.Do(ctx, t.user); i > 0 && isTooEarly(err) {
			waits := t.subject.Workload[i-1]
			waits.Do = func(context.Context, *User) error { return nil }
			return append([]Step{waits}, t.subject.Workload[i:]...), nil
		} else if err != nil {
			return nil, err
		}
		if err := t.await(ctx, stuckAfter, step.Done); ctx.Err() != nil {
			return nil, err
		}
	}
	return nil, nil
}

// isTooEarly reports whether an object is not in the state that a step needs.
func isTooEarly(err error) bool {
	return apierrors.IsNotFound(err) || apierrors.IsAlreadyExists(err) || apierrors.IsConflict(err)
}

// travel runs the workload once. It then restarts the operator on the view before each event.
func (w *world) travel(ctx context.Context, reference *reference, _ mode, events []string) (outcomes []Outcome, err error) {
	t, err := w.newTrial(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, t.end()) }()
	trace := newTrace()
	w.edit(trace)
	defer w.edit(nil)
	if err := errors.Join(t.run(ctx), reference.finish(ctx, t)); err != nil {
		return nil, err
	}
	w.edit(nil)
	present, err := t.identities()
	if err != nil {
		return nil, err
	}
	for _, event := range events {
		revision, err := strconv.ParseUint(trace.version(t.user.Namespace, event), 10, 64)
		if err != nil { // The event did not come.
			outcomes = append(outcomes, Outcome{})
			continue
		}
		w.wire.mu.Lock()
		before := len(w.wire.violations)
		w.wire.mu.Unlock()
		if err := w.restartAt(ctx, t.user.Namespace, strconv.FormatUint(revision-1, 10)); err != nil {
			return nil, err
		}
		outcome := w.judge(true, reference.finish(ctx, t), "")
		w.wire.mu.Lock()
		if len(w.wire.violations) > before {
			outcome.Failure = strings.TrimSpace(outcome.Failure + " it wrote on an older view: " + w.wire.violations[before])
		}
		w.wire.mu.Unlock()
		after, err := t.identities()
		if err != nil {
			return nil, err
		}
		if replaced := present.replaced(after); outcome.Failure == "" && replaced != "" {
			outcome.Failure = "the older view cost an object of the present: " + replaced
		}
		present = after
		outcomes = append(outcomes, outcome)
	}
	return outcomes, context.Cause(ctx)
}

// identities holds the identifiers of objects by resource and name.
type identities map[string]types.UID

// identities returns the identifiers of the compared objects whose names are not generated.
func (t *trial) identities() (identities, error) {
	seen, _, err := t.observer.look()
	found := identities{}
	for key, object := range t.compared(seen) {
		if object.GetGenerateName() == "" {
			found[key] = object.GetUID()
		}
	}
	return found, err
}

// replaced returns an object that is another one afterwards, or an empty string. An object that is missing is
// a difference of the end state already.
func (i identities) replaced(after identities) string {
	for _, key := range slices.Sorted(maps.Keys(i)) {
		if is := after[key]; is != "" && is != i[key] {
			return fmt.Sprintf("%s had uid %s and has %s", key, i[key], is)
		}
	}
	return ""
}

// restartAt restarts the operator on the view at a revision. When it has settled there, the present
// returns.
func (w *world) restartAt(ctx context.Context, namespace, revision string) error {
	view := &past{revision, make(chan struct{})}
	w.wire.mu.Lock()
	w.wire.past = view
	w.wire.mu.Unlock()
	defer func() {
		w.wire.mu.Lock()
		w.wire.past = nil
		w.wire.mu.Unlock()
		close(view.over)
	}()
	w.kill()
	if err := w.revive(w.process.Load()); err != nil {
		return err
	}
	w.back(ctx)
	return w.wire.quiet(ctx, namespace, settleTime)
}
