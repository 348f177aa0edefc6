package states

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

// explorer is a running exploration.
type explorer struct {
	subject  Subject
	options  Options
	root     *props
	resource schema.GroupVersionResource
	kind     schema.GroupVersionKind
	base     map[string]any
	client   dynamic.Interface
	seen     *observer
	journal  *journal

	mu         sync.Mutex
	except     mask
	references map[string]*reference // by the accepted content
	keys       map[string]string     // the accepted content of a state, by its name
	waits      []time.Duration       // the last ones that ended well
	report     Report
}

// Explore walks an operator through the states of its kind's spec, and returns what it found. Problems
// of the operator are in the report. An error means that the exploration itself has failed.
func Explore(ctx context.Context, subject Subject, options Options) (Report, error) {
	if err := errors.Join(subject.check(), options.check()); err != nil {
		return Report{}, err
	}
	root, resource, kind, err := subject.version()
	if err != nil {
		return Report{}, err
	}
	config := rest.CopyConfig(subject.Config)
	config.QPS, config.Burst = -1, 0
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return Report{}, fmt.Errorf("states: create a client for %s: %w", config.Host, err)
	}
	given, _ := canonical(subject.Base).(map[string]any)
	e := &explorer{
		subject: subject, options: options, root: root, resource: resource, kind: kind, base: baseOf(root, given),
		client: client, except: mask{}, references: map[string]*reference{}, keys: map[string]string{},
	}
	if e.seen, err = observe(ctx, client, append([]schema.GroupVersionResource{resource}, subject.Children...)); err != nil {
		return Report{}, err
	}
	defer e.seen.close()
	if err := e.explore(ctx); err != nil {
		return Report{}, err
	}
	e.report.Problems = sorted(e.report.Problems)
	return e.report, nil
}

func (e *explorer) explore(ctx context.Context) (err error) {
	started := time.Now()
	rooms, err := e.openRooms(ctx)
	defer func() { err = errors.Join(err, e.closeRooms(rooms)) }()
	if err != nil {
		return err
	}
	fields := fieldsOf(e.root, e.subject.Opaque...)
	names, err := e.classify(ctx, rooms, fields)
	if err != nil {
		return err
	}
	plan := planOf(fields, names)
	if e.journal, err = openJournal(e.options.Journal, fingerprint(e.root, e.base, plan)); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.journal.close()) }()
	e.report.Problems = append(e.report.Problems, e.journal.problems...)
	e.report.All = len(plan)
	if e.options.Walks > 0 {
		plan = plan[:min(e.options.Walks, len(plan))]
	}
	plan = slices.DeleteFunc(plan, func(w walk) bool { return !e.options.Select(w.String()) })
	e.report.Planned = len(plan)
	if err := e.learn(ctx, rooms); err != nil {
		return err
	}
	left := slices.DeleteFunc(slices.Clone(plan), func(w walk) bool { return e.journal.has(w.String()) })
	e.report.Walks = len(plan) - len(left)
	err = e.each(ctx, rooms, len(left), func(ctx context.Context, r *room, i int) error {
		if e.isOver(started) {
			return nil
		}
		return e.finish(ctx, r, left[i])
	})
	if err != nil {
		return err
	}
	if e.options.FailFast && e.isOver(started) {
		return nil
	}
	return e.settle(ctx, rooms, fields)
}

// isOver reports whether no further walk may start.
func (e *explorer) isOver(started time.Time) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return (e.options.Slice > 0 && time.Since(started) > e.options.Slice) || (e.options.FailFast && len(e.report.Problems) > 0)
}

// each calls a function for the numbers below count. Each room is used by one call at a time.
func (e *explorer) each(ctx context.Context, rooms []*room, count int, do func(context.Context, *room, int) error) error {
	next := make(chan int)
	group := lifecycle.New(ctx)
	group.Go("plan", func(ctx context.Context) error {
		defer close(next)
		for i := range count {
			select {
			case next <- i:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		return nil
	})
	for _, r := range rooms {
		group.Go(r.namespace, func(ctx context.Context) error {
			for i := range next {
				if err := do(ctx, r, i); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return group.Wait()
}

// finish makes a walk and records its problems.
func (e *explorer) finish(ctx context.Context, r *room, w walk) error {
	started := time.Now()
	problems, err := r.walk(ctx, w)
	if err != nil {
		return fmt.Errorf("%s: %w", w, err)
	}
	if err := e.journal.finish(w.String(), problems); err != nil {
		return err
	}
	result := "ok"
	if len(problems) > 0 {
		result = fmt.Sprint(len(problems), " problems")
	}
	e.note(problems...)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.options.Log(fmt.Sprintf("%s (%.1f s): %s", w, time.Since(started).Seconds(), result))
	e.report.Walks++
	return nil
}

// note adds problems to the report.
func (e *explorer) note(problems ...Problem) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.report.Problems = append(e.report.Problems, problems...)
}

// learn creates two objects with the base spec, and masks the fields in which they differ.
func (e *explorer) learn(ctx context.Context, rooms []*room) error {
	var first, second *reference
	group := lifecycle.New(ctx)
	group.Go("first", func(ctx context.Context) (err error) {
		first, err = e.referenceFor(ctx, rooms[0], state{})
		return err
	})
	group.Go("second", func(ctx context.Context) (err error) {
		another, err := e.openRoom(ctx)
		if err != nil {
			return err
		}
		second, err = another.fresh(ctx, state{}, usual)
		return errors.Join(err, another.close())
	})
	if err := group.Wait(); err != nil {
		return err
	}
	switch {
	case first == nil:
		return invalid("Subject.Base: the API server refuses it; give required fields a valid value")
	case first.verdict != Healthy:
		return fmt.Errorf("states: an object with the base spec is %s after %v: %s; check Subject.Base, and whether the operator runs and watches all namespaces",
			first.verdict, e.patience(), first.text)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	first.second = true
	e.except.learn(first.snapshot, second.snapshot)
	return nil
}
