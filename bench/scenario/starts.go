package scenario

import (
	"context"

	"github.com/bellerophon-io/bellerophon/bench/rundir"
)

// measureStart starts the contender when n objects exist, and measures until it is quiet. Only the
// awaited objects have to become finished; the others are finished already.
func (w *World) measureStart(ctx context.Context, awaited, n int) (rundir.Measured, error) {
	server, err := w.openServers()
	if err != nil {
		return nil, err
	}
	ctx, err = w.start(ctx)
	if err != nil {
		return nil, err
	}
	win := &window{world: w, from: w.Exec, server: server}
	if err := w.converge(ctx, w.Judge.finished, "finished", awaited, n-awaited); err != nil {
		return nil, err
	}
	if err := w.settle(ctx, n); err != nil {
		return nil, err
	}
	measured := rundir.Measured{rundir.Objects: float64(n)}
	addStart(measured, w.Proxy.Record(), w.Exec)
	return measured, win.close(measured)
}
