package faults

import (
	"context"
	"errors"
	"strings"

	"k8s.io/client-go/rest"
)

// Kills runs the workload once for each effective write and each [Moment]. It kills the operator at
// that write, as kill -9 does, and starts it again. The end state must be as without a kill.
//
// config belongs to an administrator of a real cluster on which the workload's Pods become ready. A
// write is effective if it changes an object; it is identified by its verb, its object and how often
// it happened before. Writes of Leases, Events and reviews do not count.
func Kills(ctx context.Context, config *rest.Config, subject Subject, options Options) (*Report, error) {
	return run(ctx, config, subject, options, "kills", func(w *world, undisturbed *reference, report *Report) error {
		var all []string
		for _, write := range undisturbed.writes {
			for _, moment := range moments {
				all = append(all, write+", "+string(moment))
			}
		}
		return report.each(w.options, all, 1, func(names []string) ([]Outcome, error) {
			write, moment, _ := strings.Cut(names[0], ", ")
			outcome, err := w.killAt(ctx, undisturbed, write, Moment(moment))
			return []Outcome{outcome}, err
		})
	})
}

// run starts an operator, finds the reference, and runs the cases of a pattern.
func run(ctx context.Context, config *rest.Config, subject Subject, options Options, pattern string,
	cases func(*world, *reference, *Report) error) (report *Report, err error) {
	if err := subject.validate(); err != nil {
		return nil, err
	}
	if options, err = options.complete(); err != nil {
		return nil, err
	}
	report = &Report{Subject: subject.Name, Pattern: pattern}
	if err := report.load(options.Folder); err != nil {
		return nil, err
	}
	w, err := newWorld(ctx, config, subject, options)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, w.close()) }()
	reference, err := w.undisturbed(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, reference.close()) }()
	report.Undisturbed = reference.again
	if err := cases(w, reference, report); err != nil {
		return nil, err
	}
	return report, w.conclude(ctx, report)
}

// killAt runs the workload with a kill at one write.
func (w *world) killAt(ctx context.Context, reference *reference, write string, moment Moment) (outcome Outcome, err error) {
	t, err := w.newTrial(ctx)
	if err != nil {
		return outcome, err
	}
	defer func() { err = errors.Join(err, t.end()) }()
	// An operator that is back at once gets further events, which may hide that it has forgotten something. One
	// that is back late gets none.
	t.late = moment == BeforeForward
	due := &killing{t.user.Namespace, write, moment, w.kill}
	w.wire.mu.Lock()
	w.wire.kill = due
	w.wire.mu.Unlock()
	failure := t.run(ctx)
	if failure == nil {
		failure = reference.finish(ctx, t)
	}
	w.wire.mu.Lock()
	outcome.Struck = w.wire.kill != due
	w.wire.kill = nil
	w.wire.mu.Unlock()
	if failure == nil && outcome.Struck { // The state may have been as wanted before the operator was back.
		w.back(ctx)
		failure = reference.finish(ctx, t)
	}
	if ctx.Err() != nil {
		return outcome, context.Cause(ctx)
	}
	if failure != nil {
		outcome.Struck = true
		outcome.Failure = failure.Error()
	}
	return outcome, nil
}
