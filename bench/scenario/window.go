package scenario

import (
	"context"
	"time"

	v1 "github.com/bellerophon-io/bellerophon/bellerophon/api/simple/v1"
	"github.com/bellerophon-io/bellerophon/bench/rundir"
	"k8s.io/apimachinery/pkg/types"
)

// window is the time in which usage and requests are measured.
type window struct {
	world             *World
	from              time.Time
	contender, server Usage
}

// open opens a window, once the contender runs.
func (w *World) open() (*window, error) {
	contender, err := UsageOf(w.process.PID())
	if err != nil {
		return nil, &Failure{err}
	}
	server, err := w.openServers()
	if err != nil {
		return nil, err
	}
	return &window{world: w, from: time.Now(), contender: contender, server: server}, nil
}

func (w *World) openServers() (Usage, error) { return UsageOf(w.Servers...) }

// openFinished calls finish and then opens a window.
func (w *World) openFinished(ctx context.Context, v Variant) (context.Context, *window, error) {
	ctx, err := w.finish(ctx, v)
	if err != nil {
		return nil, nil, err
	}
	win, err := w.open()
	return ctx, win, err
}

// close ends the window and adds its measurements.
func (win *window) close(measured rundir.Measured) error {
	to := time.Now()
	contender, err := UsageOf(win.world.process.PID())
	if err != nil {
		return &Failure{err}
	}
	server, err := win.world.openServers()
	if err != nil {
		return err
	}
	measured[rundir.ContenderCPU] = (contender.CPU - win.contender.CPU).Seconds()
	measured[rundir.ServerCPU] = (server.CPU - win.server.CPU).Seconds()
	measured[rundir.PeakMemory] = float64(contender.Peak)
	measured[rundir.SettledMemory] = float64(contender.Resident)
	measured[rundir.Window] = to.Sub(win.from).Seconds()
	addTraffic(measured, win.world.Proxy.Record(), win.world.Exec, win.from, to)
	return nil
}

// addRates adds the contender's CPU time in each second and its requests in each minute since the window was opened.
func (win *window) addRates(measured rundir.Measured, cpu, calls rundir.Measure) error {
	to := time.Now()
	contender, err := UsageOf(win.world.process.PID())
	if err != nil {
		return &Failure{err}
	}
	passed := to.Sub(win.from)
	measured[cpu] = (contender.CPU - win.contender.CPU).Seconds() / passed.Seconds()
	measured[calls] = float64(requestsIn(win.world.Proxy.Record(), win.from, to)) / passed.Minutes()
	return nil
}

// closeLoad ends a load on n objects that began when the window was opened. It waits until they
// have reached their wanted numbers on the board and the contender is quiet. Then it measures the
// window, the latencies of the objects, each since its own time, and the reactions to the events of
// the trigger.
func (win *window) closeLoad(ctx context.Context, b *board, what string, n int, since map[types.NamespacedName]time.Time,
	by trigger) (rundir.Measured, error) {
	if err := win.world.convergeAndSettle(ctx, b, what, n); err != nil {
		return nil, err
	}
	measured, samples := rundir.Measured{}, rundir.Samples{}
	addLatencies(measured, samples, b, win.from, since)
	addReactions(measured, samples, win.world.Proxy.Record(), by)
	win.world.Samples = samples
	return measured, win.close(measured)
}

// closeFinished ends a load of new generations that have to become finished. intended holds the
// times from which reactions to some of them are measured. It may be nil.
func (win *window) closeFinished(ctx context.Context, n int, since map[types.NamespacedName]time.Time,
	intended map[change]time.Time) (rundir.Measured, error) {
	return win.closeLoad(ctx, win.world.Judge.finished, "finished", n, since, newGeneration(v1.Plural, win.from, intended))
}

// closePaced ends an open load of new objects. due holds when each creation was due.
func (win *window) closePaced(ctx context.Context, rate float64, n int, due map[types.NamespacedName]time.Time) (rundir.Measured, error) {
	intended := map[change]time.Time{}
	for name, at := range due {
		intended[change{Object: name, Generation: 1}] = at
	}
	measured, err := win.closeFinished(ctx, n, due, intended)
	if err != nil {
		return nil, err
	}
	measured[rundir.OfferedRate] = rate
	return measured, nil
}
