package scenario

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/bellerophon-io/bellerophon/bench/rundir"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/internal/slope"
)

var long = Scenario{
	Name: "long", about: "for some seconds one of n objects is replaced and one is changed each second, and then nothing happens for as long",
	parts: []part{{partN.name, partN.of, 10, partN.maximum}, partSeconds}, run: runLong,
	sizes: map[Size][]Variant{Short: {{N: 20, Seconds: 30}}, Full: {{N: 500, Seconds: 3600}}, Tiny: {{N: 10, Seconds: 5}}},
}

// longRate is how many objects are replaced each second, and how many are changed.
const longRate = 1

// half is one half of a long scenario, with its measures.
type half struct {
	what                      string
	cpu, calls, slope, margin rundir.Measure
}

var (
	churning = half{"churn", rundir.ChurnCPU, rundir.ChurnCalls, rundir.ChurnSlope, rundir.ChurnMargin}
	idling   = half{"idle", rundir.IdleCPU, rundir.IdleCalls, rundir.IdleSlope, rundir.IdleMargin}
)

// runLong measures each half on its own. What has no name of one half is measured over both, except for the
// settled memory, which is the memory at the end.
func runLong(ctx context.Context, w *World, v Variant) (rundir.Measured, error) {
	ctx, win, err := w.openFinished(ctx, v)
	if err != nil {
		return nil, err
	}
	measured := rundir.Measured{}
	if measured[rundir.ChurnMemory], err = w.measureHalf(ctx, measured, churning, v.Seconds, func(ctx context.Context) error { return w.replaceSlowly(ctx, v) }); err != nil {
		return nil, err
	}
	if err := w.convergeAndSettle(ctx, w.Judge.finished, "finished", v.N); err != nil {
		return nil, err
	}
	if _, err := w.measureHalf(ctx, measured, idling, v.Seconds, func(context.Context) error { return nil }); err != nil {
		return nil, err
	}
	return measured, win.close(measured)
}

// replaceSlowly replaces the oldest object and changes one of middle age, each second. So the number of objects
// stays the same.
func (w *World) replaceSlowly(ctx context.Context, v Variant) error {
	return atRate(ctx, longRate, longRate*v.Seconds, func(ctx context.Context, i int, _ time.Time) error {
		if err := w.Clients.remove(ctx, object("hero", i)); err != nil {
			return err
		}
		name := object("hero", v.N+i)
		w.Judge.finished.want(name, 1) // Before create: a want after the object's deletion would never be met.
		if err := w.Clients.create(ctx, name, v.Replicas()); err != nil {
			return err
		}
		changed := object("hero", i+v.N/2)
		generation, err := w.Clients.rename(ctx, changed, fmt.Sprint("long ", i))
		if err != nil {
			return err
		}
		w.Judge.finished.want(changed, uint64(generation))
		return nil
	})
}

// measureHalf measures a half that lasts for some seconds, with a load that may end earlier. It returns the
// resident memory at its end.
func (w *World) measureHalf(ctx context.Context, measured rundir.Measured, of half, seconds int, load func(context.Context) error) (resident float64, err error) {
	win, err := w.open()
	if err != nil {
		return 0, err
	}
	samples, err := w.sampleMemory(ctx, win.from, seconds, func(ctx context.Context) error {
		group := lifecycle.New(ctx)
		group.Go("load", load)
		group.Go(of.what, func(ctx context.Context) error { return w.wait(ctx, of.what, win.from, seconds) })
		return group.Wait()
	})
	if err != nil {
		return 0, err
	}
	addSlope(measured, of, samples, time.Duration(seconds)*time.Second)
	return samples[len(samples)-1].Value, win.addRates(measured, of.cpu, of.calls)
}

// sampleMemory samples the contender's resident memory at least once a second while a function runs, and a last
// time after it.
func (w *World) sampleMemory(ctx context.Context, since time.Time, seconds int, during func(context.Context) error) (samples []slope.Sample, err error) {
	sample := func() error {
		used, err := UsageOf(w.process.PID())
		if err != nil {
			return &Failure{err}
		}
		samples = append(samples, slope.Sample{At: time.Since(since), Value: float64(used.Resident)})
		return nil
	}
	over := make(chan struct{})
	group := lifecycle.New(ctx)
	group.Go("half", func(ctx context.Context) error {
		defer close(over)
		return during(ctx)
	})
	group.Go("memory", func(ctx context.Context) error {
		// A period of a short half has ten samples, too.
		ticker := time.NewTicker(min(time.Second, time.Duration(seconds)*time.Second/100))
		defer ticker.Stop()
		for {
			if err := sample(); err != nil {
				return err
			}
			select {
			case <-ticker.C:
			case <-over:
				return sample()
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	})
	err = group.Wait()
	return samples, err
}

// addSlope adds the slope of the memory in a half. The first three tenths are the warm-up, and each further tenth
// is a point of the line. In a half of an hour these are the 18 and 6 minutes of the soaks: see docs/faults.md.
func addSlope(measured rundir.Measured, of half, samples []slope.Sample, length time.Duration) {
	warmUp, period := 3*length/10, length/10
	_, found := slope.Of(samples, warmUp, period)
	var settled []float64
	for _, each := range samples {
		if each.At >= warmUp {
			settled = append(settled, each.Value)
		}
	}
	if median := rundir.Median(settled); median > 0 && !math.IsInf(found.Margin, 0) {
		measured[of.slope], measured[of.margin] = 100*found.PerHour/median, 100*found.Margin/median
	}
}
