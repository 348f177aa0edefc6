package states

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// walk makes a walk in the room, which is empty before and after it.
func (r *room) walk(ctx context.Context, w walk) (problems []Problem, err error) {
	if w.mode == named {
		return r.walkNamed(ctx, w)
	}
	want := make([]*reference, len(w.stops))
	for i, stop := range w.stops {
		if want[i], err = r.referenceFor(ctx, r, stop); err != nil {
			return nil, err
		}
		if want[i] == nil {
			return nil, nil // A combination that the API server refuses.
		}
	}
	if err := r.create(ctx, w.stops[0], usual); err != nil {
		return nil, err
	}
	found, err := r.arrive(ctx, w, 0, want[0], 0)
	problems = append(problems, found...)
	for i := 1; err == nil && i < len(w.stops); i++ {
		found, err = r.step(ctx, w, i, want[i])
		problems = append(problems, found...)
	}
	if err != nil {
		return nil, err
	}
	left, err := r.clear(ctx, usual, w.String())
	return append(problems, left...), err
}

// step goes to a stop of a walk.
func (r *room) step(ctx context.Context, w walk, i int, want *reference) ([]Problem, error) {
	if w.mode == replaced {
		if err := r.delete(ctx, usual); err != nil {
			return nil, err
		}
		if err := r.create(ctx, w.stops[i], usual); err != nil {
			return nil, err
		}
		return r.arrive(ctx, w, i, want, 0)
	}
	generation, refusal, err := r.change(ctx, w.stops[i])
	switch {
	case err != nil:
		return nil, err
	case refusal != nil: // Such as a field that must not be changed.
		if text := refusalText(refusal); !w.stops[i].names(text) && !w.stops[i-1].names(text) {
			return []Problem{{AnswersMisuse, w.String(), "the refusal does not name the field: " + text}}, nil
		}
		return nil, nil
	case w.mode == hasty && i < len(w.stops)-1:
		return nil, nil
	}
	return r.arrive(ctx, w, i, want, generation)
}

// arrive waits until the object is like the reference of a stop.
func (r *room) arrive(ctx context.Context, w walk, i int, want *reference, generation int64) ([]Problem, error) {
	switch want.verdict {
	case Pending:
		return nil, nil // The reference has a problem already.
	case Unhealthy:
		return r.arriveUnhealthy(ctx, w, i, generation)
	}
	check := func(objects []*unstructured.Unstructured) bool {
		verdict, _ := r.judge(objects, generation)
		return verdict == Healthy && len(r.unlike(objects, want)) == 0
	}
	late, err := r.await(ctx, r.options.Quiet/2, check)
	if err != nil || !late {
		return nil, err
	}
	// Fields may differ between objects that were never changed, too.
	another, err := r.openRoom(ctx)
	if err != nil {
		return nil, err
	}
	err = r.compareReferences(ctx, another, w.stops[i], want)
	if closed := another.close(); err == nil {
		err = closed
	}
	if err != nil {
		return nil, err
	}
	objects, err := r.live(ctx)
	if err != nil || check(objects) {
		return nil, err
	}
	verdict, text := r.judge(objects, generation)
	details := listed(r.unlike(objects, want))
	if verdict != Healthy {
		details = fmt.Sprintf("a fresh object is healthy, this one is %s: %s; %s", verdict, text, details)
	}
	return []Problem{{EndsAsFresh, w.String(), fmt.Sprintf("at stop %d: %s", i+1, details)}}, nil
}

// arriveUnhealthy waits until a problem is reported as for the reference. The children are not compared:
// what is left of the last good spec, such as running pods, is better than nothing.
func (r *room) arriveUnhealthy(ctx context.Context, w walk, i int, generation int64) ([]Problem, error) {
	var verdict Verdict
	var text string
	late, err := r.await(ctx, r.options.Quiet, func(objects []*unstructured.Unstructured) bool {
		verdict, text = r.judge(objects, generation)
		return verdict == Unhealthy && w.stops[i].names(text)
	})
	if err != nil || !late {
		return nil, err
	}
	return []Problem{{AnswersMisuse, w.String(), fmt.Sprintf("at stop %d: a fresh object reports a problem, this one is %s: %s", i+1, verdict, text)}}, nil
}

// walkNamed creates an object with an unusual name. It must become healthy, or report a problem with its
// name.
func (r *room) walkNamed(ctx context.Context, w walk) ([]Problem, error) {
	made, err := r.fresh(ctx, w.stops[0], w.name)
	if err != nil {
		return nil, err
	}
	if made.verdict == Healthy || (made.verdict == Unhealthy && nameField.isNamedIn(made.text)) {
		return nil, nil
	}
	return []Problem{{AnswersMisuse, w.String(), fmt.Sprintf("the object is %s: %s", made.verdict, made.text)}}, nil
}

var nameField = &field{path: []string{"metadata", "name"}}

// occupy creates an object with the base spec, changes it, and waits until it has settled.
func (r *room) occupy(ctx context.Context, to state) error {
	if err := r.create(ctx, state{}, usual); err != nil {
		return err
	}
	generation := int64(0)
	settled := func(objects []*unstructured.Unstructured) bool {
		verdict, _ := r.judge(objects, generation)
		return verdict != Pending
	}
	// The walks report an object that does not settle.
	if _, err := r.await(ctx, r.options.Quiet, settled); err != nil || len(to.changes) == 0 {
		return err
	}
	generation, _, err := r.change(ctx, to)
	if err != nil {
		return err
	}
	_, err = r.await(ctx, r.options.Quiet, settled)
	return err
}
