package faults

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
)

// settleTime is the time without a write after which a run counts as settled.
const settleTime = 500 * time.Millisecond

// concludeTime is the time without a write after which the quiet time begins. Operators back off, so that
// a write may be tried a second after its cause.
const concludeTime = 2 * time.Second

// reference is what the workload leads to without a fault.
type reference struct {
	end    fields
	mask   map[string]bool // the paths at which two undisturbed runs differ
	writes []string        // the effective writes of both runs, each once, in order
	events []string        // the events of both runs
	again  []string        // the differences of a third run, which should be none
	trials []*trial
}

// undisturbed runs the workload three times, at once and without a fault: two runs are the
// reference, and the third one is compared with it.
func (w *world) undisturbed(ctx context.Context) (*reference, error) {
	r := &reference{mask: map[string]bool{}}
	trace := newTrace()
	w.edit(trace)
	defer w.edit(nil)
	for range 3 {
		t, err := w.newTrial(ctx)
		if err != nil {
			return nil, errors.Join(err, r.close())
		}
		r.trials = append(r.trials, t)
	}
	group := lifecycle.New(ctx)
	for _, t := range r.trials {
		group.Go("undisturbed run", t.run)
	}
	if err := group.Wait(); err != nil {
		return nil, errors.Join(fmt.Errorf("%w\n%s", err, w.tail()), r.close())
	}
	var ends []fields
	for _, t := range r.trials {
		if err := w.wire.quiet(ctx, t.user.Namespace, settleTime); err != nil {
			return nil, errors.Join(err, r.close())
		}
		seen, _, err := t.observer.look()
		if err != nil {
			return nil, errors.Join(err, r.close())
		}
		ends = append(ends, t.normal(seen))
	}
	r.end = ends[0]
	r.mask = different(ends[0], ends[1])
	r.again = differences(ends[0], ends[2], r.mask)
	known := map[string]bool{}
	for _, t := range r.trials[:2] {
		w.wire.mu.Lock()
		writes := w.wire.effective[t.user.Namespace]
		w.wire.mu.Unlock()
		for _, write := range writes {
			if !known[write] {
				known[write] = true
				r.writes = append(r.writes, write)
			}
		}
	}
	r.events = trace.of(r.trials[0].user.Namespace)
	return r, nil
}

func (r *reference) close() (err error) {
	for _, t := range r.trials {
		err = errors.Join(err, t.end())
	}
	return err
}

// matches returns nil if a state is the reference's end state.
func (r *reference) matches(t *trial) func(State) error {
	return func(seen State) error {
		const most = 5
		found := differences(r.end, t.normal(seen), r.mask)
		if len(found) == 0 {
			return nil
		}
		return errors.New("the end state differs: " + strings.Join(found[:min(most, len(found))], "; "))
	}
}

// finish waits until a trial has the reference's end state, and keeps it. It returns what is wrong.
func (r *reference) finish(ctx context.Context, t *trial) error {
	for deadline := time.Now().Add(t.options.Patience); ; {
		if err := t.await(ctx, t.options.Patience, r.matches(t)); err != nil {
			return err
		}
		running := t.process.Load()
		bounded, cancel := context.WithTimeout(ctx, t.options.Patience)
		err := t.wire.quiet(bounded, t.user.Namespace, settleTime)
		cancel()
		if err != nil {
			return fmt.Errorf("it goes on writing: %w", err)
		}
		select {
		case <-running.ended: // A late write was the one at which it is killed.
			if err := t.revive(running); err != nil {
				return err
			}
			continue
		default:
		}
		seen, _, err := t.observer.look()
		if err != nil {
			return err
		}
		// The cluster itself may still be at work, such as on the status of a Job.
		if wrong := r.matches(t)(seen); wrong == nil || time.Now().After(deadline) {
			return wrong
		}
	}
}

// edit sets what changes the events of watches; nil changes none.
func (w *world) edit(by editor) {
	w.wire.mu.Lock()
	defer w.wire.mu.Unlock()
	w.wire.editor = by
}

// conclude observes the quiet time, and completes the report.
func (w *world) conclude(ctx context.Context, r *Report) error {
	before := map[string]int{}
	bounded, cancel := context.WithTimeout(ctx, w.options.Patience)
	defer cancel()
	for _, namespace := range w.namespaces {
		_ = w.wire.quiet(bounded, namespace, concludeTime) // If it goes on writing, that is counted below.
	}
	w.wire.mu.Lock()
	for _, namespace := range w.namespaces {
		before[namespace] = w.wire.tries[namespace].count
	}
	w.wire.mu.Unlock()
	timer := time.NewTimer(w.options.Quiet)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	w.wire.mu.Lock()
	defer w.wire.mu.Unlock()
	for _, namespace := range w.namespaces {
		if late := w.wire.tries[namespace].count - before[namespace]; late > 0 {
			r.LateWrites, r.Last = r.LateWrites+late, w.wire.tries[namespace].last
		}
	}
	r.Violations, r.Crashes, r.Quiet = w.wire.violations, w.crashes, w.options.Quiet
	return nil
}
