package states

import (
	"context"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// reference is how an object ends that was created with a spec and never changed.
type reference struct {
	made     chan struct{} // closed when the rest is set
	err      error
	verdict  Verdict
	text     string
	snapshot snapshot
	second   bool // a second one was compared with it
}

// freshly precedes the name of a state in the journal, for references that are not healthy.
const freshly = "fresh: "

// keyOf returns the content that identifies the states that the API server stores alike, or "" if it
// refuses the state.
func (r *room) keyOf(ctx context.Context, s state) (string, error) {
	r.mu.Lock()
	key, known := r.keys[s.String()]
	r.mu.Unlock()
	if known {
		return key, nil
	}
	key, _, err := r.accepts(ctx, s, usual)
	if err != nil {
		return "", err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.keys[s.String()] = key
	return key, nil
}

// verdictOf returns the verdict of a reference that exists.
func (e *explorer) verdictOf(s state) (Verdict, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	held := e.references[e.keys[s.String()]]
	if held == nil {
		return Pending, false
	}
	select {
	case <-held.made:
		return held.verdict, held.err == nil
	default:
		return Pending, false
	}
}

// referenceFor returns the reference for a state. The first caller makes it in its own room. It is nil
// for a state that the API server refuses.
func (e *explorer) referenceFor(ctx context.Context, r *room, s state) (*reference, error) {
	key, err := r.keyOf(ctx, s)
	if err != nil || key == "" {
		return nil, err
	}
	e.mu.Lock()
	held, known := e.references[key]
	if !known {
		held = &reference{made: make(chan struct{})}
		e.references[key] = held
	}
	e.mu.Unlock()
	if known {
		select {
		case <-held.made:
			return held, held.err
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	defer close(held.made)
	made, err := r.fresh(ctx, s, usual)
	if held.err = err; err != nil {
		return nil, err
	}
	held.verdict, held.text, held.snapshot = made.verdict, made.text, made.snapshot
	return held, e.judgeReference(s, freshly+s.String(), held)
}

// judgeReference records how a state that was not healthy is answered.
func (e *explorer) judgeReference(s state, name string, made *reference) error {
	var problems []Problem
	switch {
	case made.verdict == Healthy:
		return nil
	case made.verdict == Pending:
		problems = []Problem{{AnswersMisuse, name, "neither healthy nor a problem is reported within " + e.patience().Round(time.Second).String() + ": " + made.text}}
	case !s.names(made.text):
		problems = []Problem{{AnswersMisuse, name, "the report does not name the field: " + made.text}}
	}
	e.note(problems...)
	e.mu.Lock()
	e.report.Misuses++
	e.mu.Unlock()
	return e.journal.finish(name, problems)
}

// fresh creates an object, waits until it has settled, and deletes it.
func (r *room) fresh(ctx context.Context, s state, name string) (*reference, error) {
	if err := r.create(ctx, s, name); err != nil {
		return nil, err
	}
	made := &reference{}
	if _, err := r.await(ctx, r.options.Quiet, func(objects []*unstructured.Unstructured) bool {
		made.verdict, made.text = r.judge(objects, 0)
		return made.verdict != Pending
	}); err != nil {
		return nil, err
	}
	objects, err := r.live(ctx)
	if err != nil {
		return nil, err
	}
	made.snapshot = snapshotOf(r.namespace, objects)
	problems, err := r.clear(ctx, name, freshly+s.String())
	r.note(problems...)
	return made, err
}

// compareReferences makes a second reference, and masks the fields in which it differs from the first.
func (e *explorer) compareReferences(ctx context.Context, r *room, s state, first *reference) error {
	e.mu.Lock()
	done := first.second
	first.second = true
	e.mu.Unlock()
	if done {
		return nil
	}
	second, err := r.fresh(ctx, s, usual)
	if err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.except.learn(first.snapshot, second.snapshot)
	return nil
}

// unlike returns the differences between the objects of a room and a reference.
func (r *room) unlike(objects []*unstructured.Unstructured, want *reference) []difference {
	got := snapshotOf(r.namespace, objects)
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.DeleteFunc(differences(got, want.snapshot, r.except), func(d difference) bool {
		pattern := patternOf(d.path)
		return slices.ContainsFunc(r.subject.Ignore, func(field string) bool {
			return pattern == field || strings.HasPrefix(pattern, field+".") || strings.HasPrefix(pattern, field+"[")
		})
	})
}

// listed returns the first differences as one text.
func listed(found []difference) string {
	const most = 6
	var lines []string
	for _, d := range found[:min(most, len(found))] {
		lines = append(lines, d.String())
	}
	if len(found) > most {
		lines = append(lines, "and more")
	}
	return strings.Join(lines, "; ")
}
