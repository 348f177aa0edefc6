package states

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// classify asks the API server for each value. It checks the refusals, and leaves to the fields the
// values that can be run. It returns the names of objects that can be run.
func (e *explorer) classify(ctx context.Context, rooms []*room, fields []*field) (names []string, err error) {
	var all []change
	for _, f := range fields {
		f.fill(e.subject.Values[f.String()])
		for _, v := range f.values {
			all = append(all, change{f, v})
		}
	}
	for option, paths := range map[string][]string{"Values": slices.Collect(maps.Keys(e.subject.Values)), "Opaque": e.subject.Opaque} {
		for _, path := range paths {
			if !slices.ContainsFunc(fields, func(f *field) bool { return f.String() == path }) {
				return nil, invalid("Subject.%s: the kind has no field %s", option, path)
			}
		}
	}
	e.report.Fields = len(fields)
	kept := make([]string, len(all)) // what the API server would store, or ""
	err = e.each(ctx, rooms, len(all), func(ctx context.Context, r *room, i int) error {
		s := state{all[i : i+1]}
		content, refusal, err := r.accepts(ctx, s, usual)
		if err != nil {
			return err
		}
		if e.sent(refusal, s.String(), all[i].field); refusal == nil {
			kept[i] = content
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for i, c := range all {
		e.keys[state{all[i : i+1]}.String()] = kept[i]
		c.field.values = nil
	}
	same := map[string]bool{}
	for i, c := range all {
		once := c.field.String() + " " + kept[i]
		if kept[i] == "" || (same[once] && !c.value.absent) || e.subject.IsHeavy(c.field.String(), c.value.set) {
			continue
		}
		same[once] = true
		c.field.values = append(c.field.values, c.value)
	}
	return e.classifyNames(ctx, rooms)
}

func (e *explorer) classifyNames(ctx context.Context, rooms []*room) (names []string, err error) {
	var mu sync.Mutex
	candidates := namesOf(e.root)
	err = e.each(ctx, rooms, len(candidates), func(ctx context.Context, r *room, i int) error {
		_, refusal, err := r.accepts(ctx, state{}, candidates[i])
		if err != nil {
			return err
		}
		if e.sent(refusal, fmt.Sprintf("metadata.name=%q", candidates[i]), nameField); refusal == nil {
			mu.Lock()
			defer mu.Unlock()
			names = append(names, candidates[i])
		}
		return nil
	})
	slices.Sort(names)
	return names, err
}

// sent counts a value that was sent to the API server, and checks its refusal.
func (e *explorer) sent(refusal error, what string, f *field) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.report.Values++
	if refusal == nil {
		return
	}
	e.report.Refused++
	e.report.Misuses++
	if text := refusalText(refusal); !f.isNamedIn(text) {
		e.report.Problems = append(e.report.Problems, Problem{AnswersMisuse, what, "the refusal does not name the field: " + text})
	}
}

// settle fills all rooms with objects, waits until they have settled, and counts the writes afterwards.
// Values that lead to problems come first, because there operators try again and again.
func (e *explorer) settle(ctx context.Context, rooms []*room, fields []*field) error {
	var changes []change
	for _, c := range alternately(fields) {
		if verdict, known := e.verdictOf(state{[]change{c}}); known && verdict == Unhealthy {
			changes = append(changes, c)
		}
	}
	changes = changes[:min(len(changes), len(rooms)/2)]
	for _, c := range alternately(fields) {
		if verdict, known := e.verdictOf(state{[]change{c}}); known && verdict == Healthy {
			changes = append(changes, c)
		}
	}
	group := lifecycle.New(ctx)
	for i, r := range rooms {
		to := state{}
		if i < len(changes) {
			to = state{changes[i : i+1]}
		}
		group.Go(r.namespace, func(ctx context.Context) error { return r.occupy(ctx, to) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return e.watchQuiet(ctx, rooms)
}

// alternately returns the changes of the fields, one of each field alternately.
func alternately(fields []*field) (all []change) {
	for i := 0; ; i++ {
		more := false
		for _, f := range fields {
			if i < len(f.values) {
				all, more = append(all, change{f, f.values[i]}), true
			}
		}
		if !more {
			return all
		}
	}
}

// watchQuiet counts the writes in the quiet window.
func (e *explorer) watchQuiet(ctx context.Context, rooms []*room) error {
	resources := map[string]bool{}
	for _, resource := range append([]schema.GroupVersionResource{e.resource}, e.subject.Children...) {
		resources[resource.GroupResource().String()] = true
	}
	changes := func() map[string]int {
		all := map[string]int{}
		for _, r := range rooms {
			for object, count := range e.seen.changesIn(r.namespace) {
				all[r.namespace+": "+object] = count
			}
		}
		return all
	}
	if err := e.awaitClosed(ctx); err != nil {
		return err
	}
	before, err := writesOf(ctx, e.subject.Config, resources)
	if err != nil {
		return err
	}
	earlier := changes()
	select {
	case <-time.After(e.options.Window):
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	after, err := writesOf(ctx, e.subject.Config, resources)
	if err != nil {
		return err
	}
	e.report.Window, e.report.Writes = e.options.Window, map[string]float64{}
	var found []string
	for _, resource := range slices.Sorted(maps.Keys(after)) {
		if more := after[resource] - before[resource]; more > 0 {
			e.report.Writes[resource] = more
			found = append(found, fmt.Sprintf("%v writes of %s", more, resource))
		}
	}
	if len(found) == 0 {
		return nil
	}
	for object, count := range changes() {
		if count > earlier[object] {
			found = append(found, fmt.Sprintf("%d changes of %s", count-earlier[object], object))
		}
	}
	slices.Sort(found)
	e.note(Problem{StaysQuiet, "quiet", fmt.Sprintf("in %v after everything had settled: %s", e.options.Window, strings.Join(found[:min(len(found), 10)], ", "))})
	return nil
}
