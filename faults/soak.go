package faults

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// flatGrowth is the part of its memory by which an operator may grow within an hour.
const flatGrowth = 0.05

const (
	// eventPeriod is the period in which client-go removes Events from its cache. An Event is removed at the
	// first removal after it is 6 minutes old, so the memory rises and falls with this period.
	eventPeriod = 6 * time.Minute
	// warmUp is the time at the beginning of each soak that does not count. The cache of Events fills for
	// two periods. In the third, the heap reaches the peak of the removals that follow.
	warmUp = 3 * eventPeriod
	// shortestSoak has as many whole periods after the warm-up as a slope with an interval needs.
	shortestSoak = warmUp + 3*eventPeriod
)

// Growth is how the memory of an operator's process changed after the warm-up.
type Growth struct {
	Subject string
	// Runs is the number of runs of the workload, and Over is the time that they took.
	Runs int
	Over time.Duration
	// First is the resident memory after the first run in bytes, and Level is its mean after the warm-up.
	First, Level float64
	// Resident is the slope of the resident memory. Anonymous is the slope of the part which no file backs: the heap,
	// the stacks and what the runtime needs.
	Resident, Anonymous Slope
}

// Soak runs the workload without a fault again and again, until a time has passed. It measures the resident
// memory of the operator after each run, and needs Linux for that. Slopes are fitted after a warm-up of 18 minutes.
func Soak(ctx context.Context, config *rest.Config, subject Subject, options Options, duration time.Duration) (growth *Growth, err error) {
	if err := subject.validate(); err != nil {
		return nil, err
	}
	if options, err = options.complete(); err != nil {
		return nil, err
	}
	if duration < shortestSoak {
		return nil, fmt.Errorf("faults: the duration of Soak is %v; allowed is %v and above, because the first %v do not count", duration, shortestSoak, warmUp)
	}
	w, err := newWorld(ctx, config, subject, options)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, w.close()) }()
	running, began := w.process.Load(), time.Now()
	var samples []sample
	for time.Since(began) < duration {
		if err := w.repeat(ctx); err != nil {
			return nil, fmt.Errorf("faults: %s: run %d: %w", subject.Name, len(samples)+1, err)
		}
		if w.process.Load() != running {
			return nil, fmt.Errorf("faults: %s ended by itself in run %d:\n%s", subject.Name, len(samples)+1, w.tail())
		}
		taken, err := memoryOf(running.command.Process.Pid)
		if err != nil {
			return nil, fmt.Errorf("faults: %s: %w", subject.Name, err)
		}
		taken.at = time.Since(began)
		samples = append(samples, taken)
		options.Progress(fmt.Sprintf("%s: run %d: %.1f MB, %.1f MB of it anonymous", subject.Name, len(samples), taken.resident/1e6, taken.anonymous/1e6))
	}
	growth = &Growth{Subject: subject.Name, Runs: len(samples), Over: time.Since(began), First: samples[0].resident}
	growth.Level, growth.Resident, growth.Anonymous = fit(samples)
	return growth, nil
}

// repeat runs the workload once, waits until the operator has nothing to write, and deletes everything.
func (w *world) repeat(ctx context.Context) (err error) {
	t, err := w.newTrial(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.end()) }()
	if err := t.run(ctx); err != nil {
		return err
	}
	if err := w.wire.quiet(ctx, t.user.Namespace, settleTime); err != nil {
		return err
	}
	// Namespaces that pile up would look like memory that is lost.
	if err := w.core.CoreV1().Namespaces().Delete(ctx, t.user.Namespace, metav1.DeleteOptions{}); err != nil {
		return fmt.Errorf("delete the namespace %s: %w", t.user.Namespace, err)
	}
	w.namespaces = w.namespaces[:len(w.namespaces)-1]
	return t.await(ctx, w.options.Patience, func(seen State) error {
		if left := len(t.compared(seen)); left > 0 {
			return fmt.Errorf("%d objects are left in the namespace", left)
		}
		return nil
	})
}

// Goal returns the goal that the memory does not grow. It is met only if the whole interval of the slope is below
// the target.
func (g *Growth) Goal() Goal {
	percent := 100 / g.Level
	return Goal{
		Name: fmt.Sprintf("soak %s: slope of the resident memory after %v, %d runs in %v", g.Subject, warmUp, g.Runs, g.Over.Round(time.Second)),
		Measured: fmt.Sprintf("%+.1f ± %.1f %%/h of %.1f MB; anonymous %+.1f ± %.1f %%/h (%.1f MB after the first run)",
			percent*g.Resident.PerHour, percent*g.Resident.Margin, g.Level/1e6, percent*g.Anonymous.PerHour, percent*g.Anonymous.Margin, g.First/1e6),
		Target: fmt.Sprintf("<= %.0f %%/h with 95 %% confidence", 100*flatGrowth),
		Met:    g.Resident.PerHour+g.Resident.Margin <= flatGrowth*g.Level,
	}
}

// memoryOf returns the memory that a process has. Its time is not set.
func memoryOf(pid int) (sample, error) {
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return sample{}, fmt.Errorf("read the memory of the process: %w", err)
	}
	fields := bytes.Fields(content)
	if len(fields) < 3 {
		return sample{}, fmt.Errorf("read the memory of the process: %q has no third field", content)
	}
	resident, err1 := strconv.ParseFloat(string(fields[1]), 64)
	backed, err2 := strconv.ParseFloat(string(fields[2]), 64)
	if err := errors.Join(err1, err2); err != nil {
		return sample{}, fmt.Errorf("read the memory of the process: %w", err)
	}
	size := float64(os.Getpagesize())
	return sample{resident: resident * size, anonymous: (resident - backed) * size}, nil
}
