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

// Growth is how the memory of an operator's process changed.
type Growth struct {
	Subject string
	// Runs is the number of runs of the workload, and Over is the time that they took.
	Runs int
	Over time.Duration
	// First and Last are the resident memory after the first and after the last run, in bytes.
	First, Last float64
	// PerHour is the slope of the line that fits best to the second half of the runs, in bytes per hour.
	PerHour float64
}

// Soak runs the workload without a fault again and again, until a time has passed. It measures the resident
// memory of the operator after each run, and needs Linux for that.
func Soak(ctx context.Context, config *rest.Config, subject Subject, options Options, duration time.Duration) (growth *Growth, err error) {
	if err := subject.validate(); err != nil {
		return nil, err
	}
	if options, err = options.complete(); err != nil {
		return nil, err
	}
	if duration <= 0 {
		return nil, fmt.Errorf("faults: the duration of Soak is %v; allowed is above 0", duration)
	}
	w, err := newWorld(ctx, config, subject, options)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, w.close()) }()
	running, began := w.process.Load(), time.Now()
	var hours, sizes []float64
	for time.Since(began) < duration {
		if err := w.repeat(ctx); err != nil {
			return nil, fmt.Errorf("faults: %s: run %d: %w", subject.Name, len(sizes)+1, err)
		}
		if w.process.Load() != running {
			return nil, fmt.Errorf("faults: %s ended by itself in run %d:\n%s", subject.Name, len(sizes)+1, w.tail())
		}
		size, err := residentMemory(running.command.Process.Pid)
		if err != nil {
			return nil, fmt.Errorf("faults: %s: %w", subject.Name, err)
		}
		hours, sizes = append(hours, time.Since(began).Hours()), append(sizes, size)
		options.Progress(fmt.Sprintf("%s: run %d: %.1f MB", subject.Name, len(sizes), size/1e6))
	}
	half := len(sizes) / 2
	return &Growth{
		Subject: subject.Name, Runs: len(sizes), Over: time.Since(began), First: sizes[0], Last: sizes[len(sizes)-1], PerHour: slope(hours[half:], sizes[half:]),
	}, nil
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

// Goal returns the goal that the memory does not grow.
func (g *Growth) Goal() Goal {
	share := g.PerHour / g.Last
	return Goal{
		Name: fmt.Sprintf("soak %s: slope of the resident memory, %d runs in %v", g.Subject, g.Runs, g.Over.Round(time.Second)),
		Measured: fmt.Sprintf("%+.1f MB/h, %+.1f %%/h (%.1f MB after the first run, %.1f MB after the last)",
			g.PerHour/1e6, 100*share, g.First/1e6, g.Last/1e6),
		Target: fmt.Sprintf("<= %.0f %%/h", 100*flatGrowth),
		Met:    share <= flatGrowth,
	}
}

// slope returns the slope of the line that fits best to some points, by the least squares.
func slope(x, y []float64) float64 {
	var meanX, meanY, above, below float64
	for i := range x {
		meanX, meanY = meanX+x[i]/float64(len(x)), meanY+y[i]/float64(len(y))
	}
	for i := range x {
		above += (x[i] - meanX) * (y[i] - meanY)
		below += (x[i] - meanX) * (x[i] - meanX)
	}
	if below == 0 {
		return 0 // There is one point.
	}
	return above / below
}

// residentMemory returns the bytes of memory that a process has.
func residentMemory(pid int) (float64, error) {
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0, fmt.Errorf("read the memory of the process: %w", err)
	}
	fields := bytes.Fields(content)
	if len(fields) < 2 {
		return 0, fmt.Errorf("read the memory of the process: %q has no second field", content)
	}
	pages, err := strconv.ParseFloat(string(fields[1]), 64)
	return pages * float64(os.Getpagesize()), err
}
