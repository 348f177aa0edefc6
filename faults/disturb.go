package faults

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"k8s.io/client-go/rest"
)

// streamsAndWrites is the pattern of [Streams].
const streamsAndWrites = "streams and writes"

// Two faults are found by time alone. No connection reports a half-open watch: pings succeed, and a watch that
// has nothing to say looks the same, but for a bookmark a minute. And clients read a file with a token once a
// minute, because an API server accepts the old one for longer.
const (
	halfOpen       = "half-open watches, which no connection reports"
	tokenRefused   = "token rotates, old one refused at once"
	longestSilence = 90 * time.Second
)

// isSilent reports whether a fault is found by time alone.
func isSilent(name string) bool { return name == halfOpen || name == tokenRefused }

// A case may make more requests than an undisturbed one, but not many more: it has to back off.
const (
	freeRequests      = 150
	requestsPerSecond = 25
)

// disturbance is one fault of the network, of the API server or of the operator's credentials.
type disturbance struct {
	name  string
	step  int           // the step of the workload that it meets: 0 creates, and 1 changes
	lasts time.Duration // how long it stays after the step; 0 for one that ends by itself
	begin func(t *trial) (*effect, error)
}

// effect is a disturbance in progress.
type effect struct {
	struck atomic.Int64 // how often it happened
	last   atomic.Int64 // when, in nanoseconds since 1970
	end    func() error // may be nil
}

func (e *effect) happened() {
	e.struck.Add(1)
	e.last.Store(time.Now().UnixNano())
}

// Streams runs the first two steps of the workload, and disturbs one of them in each case: the
// watches, the answers to writes, the connections, the operator's credentials, or its clock.
//
// The end state must be as without the disturbance, without a hot loop: see [Report.Goals] for what
// else is measured.
func Streams(ctx context.Context, config *rest.Config, subject Subject, options Options) (*Report, error) {
	if len(subject.Workload) > 2 {
		subject.Workload = subject.Workload[:2]
	}
	return run(ctx, config, subject, options, streamsAndWrites, func(w *world, undisturbed *reference, report *Report) error {
		var all []string
		byName := map[string]disturbance{}
		for _, each := range disturbances() {
			all = append(all, each.name)
			byName[each.name] = each
		}
		return report.each(w.options, all, 1, func(names []string) ([]Outcome, error) {
			outcome, err := w.disturb(ctx, undisturbed, byName[names[0]])
			return []Outcome{outcome}, err
		})
	})
}

// disturb runs one case.
func (w *world) disturb(ctx context.Context, reference *reference, d disturbance) (outcome Outcome, err error) {
	t, err := w.newTrial(ctx)
	if err != nil {
		return outcome, err
	}
	defer func() { err = errors.Join(err, t.end()) }()
	// Clients back off longer after several failures. Each case has a client that has seen none.
	w.kill()
	if err := w.revive(w.process.Load()); err != nil {
		return outcome, err
	}
	w.back(ctx)
	for _, step := range w.subject.Workload[:d.step] {
		if err := t.step(ctx, step); err != nil {
			return outcome, fmt.Errorf("before the fault: %w", err)
		}
	}
	if err := w.wire.quiet(ctx, t.user.Namespace, settleTime); err != nil {
		return outcome, err
	}
	w.wire.recount()
	began := time.Now()
	effect, err := d.begin(t)
	if err != nil {
		return outcome, err
	}
	healed, failure := t.meet(ctx, d, effect)
	if ctx.Err() != nil {
		return outcome, context.Cause(ctx)
	}
	outcome.Recovery = max(time.Since(healed), time.Millisecond)
	outcome.Struck = effect.struck.Load() > 0
	w.wire.mu.Lock()
	outcome.Requests = w.wire.requests
	for _, lists := range w.wire.lists {
		outcome.Relists = max(outcome.Relists, lists)
	}
	w.wire.mu.Unlock()
	if most := freeRequests + int(requestsPerSecond*time.Since(began).Seconds()); outcome.Requests > most {
		failure = errors.Join(failure, fmt.Errorf("it sent %d requests in %v, at most %d are allowed", outcome.Requests, time.Since(began).Round(time.Millisecond), most))
	}
	for _, step := range w.subject.Workload[d.step+1:] {
		if failure == nil {
			failure = t.step(ctx, step)
		}
	}
	if failure == nil {
		failure = reference.finish(ctx, t)
	}
	if failure != nil {
		outcome.Struck, outcome.Failure = true, failure.Error()
	}
	return outcome, nil
}

// meet does the step while the fault is there, and waits until the operator has caught up. It returns
// when the fault ended.
func (t *trial) meet(ctx context.Context, d disturbance, effect *effect) (healed time.Time, failure error) {
	step := t.subject.Workload[d.step]
	if failure = step.Do(ctx, t.user); failure == nil && d.lasts > 0 {
		timer := time.NewTimer(d.lasts)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
	}
	healed = time.Now()
	heal := func() error {
		if effect.end == nil {
			return nil
		}
		return effect.end()
	}
	if d.lasts > 0 {
		failure = errors.Join(failure, heal())
	}
	patience := t.options.Patience
	if isSilent(d.name) {
		patience += longestSilence
	}
	if failure == nil {
		failure = t.await(ctx, patience, step.Done)
	}
	if d.lasts == 0 {
		failure = errors.Join(failure, heal())
	}
	// A fault that ends by itself ended when it last happened.
	if last := effect.last.Load(); d.lasts == 0 && last > healed.UnixNano() {
		healed = time.Unix(0, last)
	}
	return healed, failure
}
