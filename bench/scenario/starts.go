package scenario

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/bellerophon-io/bellerophon/bench/rundir"
	"k8s.io/apimachinery/pkg/types"
)

// measureStart starts the contender when n objects exist, and measures until it is quiet. Only the
// awaited objects have to become finished; the others are finished already.
func (w *World) measureStart(ctx context.Context, awaited []types.NamespacedName, n int) (rundir.Measured, error) {
	server, err := w.openServers()
	if err != nil {
		return nil, err
	}
	ctx, err = w.start(ctx)
	if err != nil {
		return nil, err
	}
	win := &window{world: w, from: w.Exec, server: server}
	if err := w.converge(ctx, w.Judge.finished, "finished", len(awaited), n-len(awaited)); err != nil {
		return nil, err
	}
	if err := w.settle(ctx, n); err != nil {
		return nil, err
	}
	measured := rundir.Measured{rundir.Objects: float64(n)}
	addStart(measured, w.Proxy.Record(), w.Exec)
	w.Samples = rundir.Samples{}
	addExecReady(measured, w.Samples, w.Judge.finished, w.Exec, awaited)
	return measured, win.close(measured)
}

// addExecReady adds how long after the start of the contender the awaited objects were finished.
func addExecReady(measured rundir.Measured, samples rundir.Samples, b *board, started time.Time, awaited []types.NamespacedName) {
	var latencies []time.Duration
	for _, name := range awaited {
		if at, reached := b.at(name); reached {
			latencies = append(latencies, at.Sub(started))
		}
	}
	if len(latencies) > 0 {
		measured[rundir.ExecReadyMedian] = quantile(latencies, 0.5).Seconds()
		measured[rundir.ExecReadyLast] = quantile(latencies, 1).Seconds()
		samples[rundir.ExecReady99] = rundir.HistogramOf(latencies)
	}
}

// names returns the names of the objects that have a time.
func (t *times) names() []types.NamespacedName {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Collect(maps.Keys(t.of))
}
