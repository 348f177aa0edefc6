package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
)

const (
	waves      = 4
	waveSize   = 40 // the objects of a burst and of a restart
	stormSize  = 20
	stormTurns = 5 // the changes of each object in one wave
	finished   = 20
	// meanPause is the mean time between two writes of a paced load. The times are exponentially
	// distributed. A fixed pace would favour the factors whose wait ends just before a write.
	meanPause = 400 * time.Millisecond
	inFlight  = 8
	// quietBefore is the time without an attempt before a load begins. It shows that the objects
	// are finished.
	quietBefore = 2 * time.Second
	// longestCalm bounds the wait for a calm, before and after a load.
	longestCalm = 30 * time.Second
)

// scenario is a load on the operator.
type scenario struct {
	name, about string
	run         func(ctx context.Context, w *world, load time.Duration) error
}

var scenarios = []scenario{
	{"burst", fmt.Sprintf("%d waves of %d new objects", waves, waveSize), burst},
	{"steady", "new objects, one at a time", steady},
	{"drift", fmt.Sprintf("children of %d finished objects are changed", finished), drift},
	{"churn", fmt.Sprintf("the oldest of %d objects is deleted and a new one created", finished), churn},
	{"storm", fmt.Sprintf("%d waves, in which each of %d objects without servers is changed %d times", waves, stormSize, stormTurns), storm},
	{"restart", fmt.Sprintf("%d starts of the operator among %d finished objects", waves, waveSize), restart},
}

// selectScenarios returns the scenarios of a comma-separated list of names.
func selectScenarios(list string) ([]scenario, error) {
	var selected []scenario
	for name := range strings.SplitSeq(list, ",") {
		at := slices.IndexFunc(scenarios, func(s scenario) bool { return s.name == name })
		if at < 0 || slices.ContainsFunc(selected, func(s scenario) bool { return s.name == name }) {
			return nil, fmt.Errorf("--scenarios has %q; allowed are %s, once each", name, strings.Join(scenarioNames(), ", "))
		}
		selected = append(selected, scenarios[at])
	}
	return selected, nil
}

func scenarioNames() []string {
	var names []string
	for _, scenario := range scenarios {
		names = append(names, scenario.name)
	}
	return names
}

// live runs one scenario with its own operator, and returns the recordings. It leaves no objects.
func (w *world) live(ctx context.Context, s scenario, load time.Duration) (recordings []recording, err error) {
	w.recordings = nil
	if err := w.start(ctx); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, w.stop()) }()
	w.progress.show("waiting for the operator")
	if err := w.quiet(ctx); err != nil {
		return nil, err
	}
	if err := s.run(ctx, w, load); err != nil {
		return nil, err
	}
	w.progress.show("waiting for the last calm")
	if err := w.recorder.calm(ctx, longestCalm, w.longEnough); err != nil {
		return nil, err
	}
	w.keep()
	w.progress.show("deleting the objects")
	if err := w.driver.clear(ctx); err != nil {
		return nil, err
	}
	return w.recordings, w.quiet(ctx)
}

// quiet waits until the operator has no work.
func (w *world) quiet(ctx context.Context) error {
	return w.recorder.calm(ctx, longestCalm, func() time.Duration { return quietBefore })
}

// longEnough returns the length of a calm in which Settled rises with every factor, and which
// shows what follows the rise.
func (w *world) longEnough() time.Duration {
	loop := max(w.recorder.loop(), floor)
	return time.Duration(slices.Max(factors)*float64(loop)) + max(loop, soon) + 100*time.Millisecond
}

// finish creates objects, waits until they are finished, and starts a new recording.
func (w *world) finish(ctx context.Context, n int, replicas int32) error {
	w.progress.show("creating objects")
	if err := w.createAll(ctx, 0, n, replicas); err != nil {
		return err
	}
	if err := w.quiet(ctx); err != nil {
		return err
	}
	w.recorder.begin()
	return nil
}

func name(i int) string { return fmt.Sprintf("hero-%d", i) }

func (w *world) createAll(ctx context.Context, from, n int, replicas int32) error {
	return inParallel(ctx, n, func(ctx context.Context, i int) error { return w.driver.create(ctx, name(from+i), replicas) })
}

// inParallel calls do for 0 to n-1, with inFlight calls at a time.
func inParallel(ctx context.Context, n int, do func(ctx context.Context, i int) error) error {
	group := lifecycle.New(ctx)
	for first := range min(inFlight, n) {
		group.Go("load", func(ctx context.Context) error {
			for i := first; i < n; i += inFlight {
				if err := do(ctx, i); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return group.Wait()
}

// inWaves calls do for each wave. The waves are spread over the duration of the load.
func (w *world) inWaves(ctx context.Context, load time.Duration, do func(wave int) error) error {
	began := time.Now()
	for wave := range waves {
		w.progress.show(fmt.Sprintf("wave %d of %d", wave+1, waves))
		if err := do(wave); err != nil {
			return err
		}
		if err := pause(ctx, began.Add(load*time.Duration(wave+1)/waves)); err != nil {
			return err
		}
	}
	return nil
}

// paced calls do at random times for the duration of the load.
func (w *world) paced(ctx context.Context, load time.Duration, do func(i int, random *rand.Rand) error) error {
	random := rand.New(rand.NewPCG(1, 1)) // A fixed seed makes the same load in each run.
	began := time.Now()
	next := began
	for i := 0; ; i++ {
		next = next.Add(time.Duration(random.ExpFloat64() * float64(meanPause)))
		if next.Sub(began) > load {
			return nil
		}
		if err := pause(ctx, next); err != nil {
			return err
		}
		w.progress.far(time.Since(began), load)
		if err := do(i, random); err != nil {
			return err
		}
	}
}

// pause waits until a time.
func pause(ctx context.Context, until time.Time) error {
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func burst(ctx context.Context, w *world, load time.Duration) error {
	return w.inWaves(ctx, load, func(wave int) error { return w.createAll(ctx, wave*waveSize, waveSize, 1) })
}

func steady(ctx context.Context, w *world, load time.Duration) error {
	return w.paced(ctx, load, func(i int, _ *rand.Rand) error { return w.driver.create(ctx, name(i), 1) })
}

func drift(ctx context.Context, w *world, load time.Duration) error {
	if err := w.finish(ctx, finished, 1); err != nil {
		return err
	}
	return w.paced(ctx, load, func(i int, random *rand.Rand) error {
		return w.driver.drift(ctx, name(random.IntN(finished)), i)
	})
}

func churn(ctx context.Context, w *world, load time.Duration) error {
	if err := w.finish(ctx, finished, 1); err != nil {
		return err
	}
	return w.paced(ctx, load, func(i int, _ *rand.Rand) error {
		if err := w.driver.remove(ctx, name(i)); err != nil {
			return err
		}
		return w.driver.create(ctx, name(finished+i), 1)
	})
}

func storm(ctx context.Context, w *world, load time.Duration) error {
	if err := w.finish(ctx, stormSize, 0); err != nil {
		return err
	}
	return w.inWaves(ctx, load, func(wave int) error {
		return inParallel(ctx, stormSize*stormTurns, func(ctx context.Context, i int) error {
			return w.driver.change(ctx, name(i%stormSize), fmt.Sprintf("horse-%d-%d", wave, i))
		})
	})
}

func restart(ctx context.Context, w *world, load time.Duration) error {
	if err := w.finish(ctx, waveSize, 1); err != nil {
		return err
	}
	return w.inWaves(ctx, load, func(wave int) error {
		if wave > 0 {
			w.keep()
		}
		if err := w.stop(); err != nil {
			return err
		}
		return w.start(ctx)
	})
}
