package scenario

import (
	"context"
	"time"

	"github.com/bellerophon-io/bellerophon/bench/rundir"
	"k8s.io/apimachinery/pkg/types"
)

// start runs the scenario of that name. With n=0 it creates one object, so that there is something
// to write.
func start(ctx context.Context, w *World, v Variant) (rundir.Measured, error) {
	n := max(1, v.N)
	if _, err := w.createAll(ctx, "hero", n, v.Replicas()); err != nil {
		return nil, err
	}
	return w.measureStart(ctx, n, n)
}

// comeBack runs the scenario return. The n objects stay finished, and only the m new ones have to
// be finished. They are spread over the namespaces of the others. comeBack measures no number of
// objects, because CPU and writes cannot be attributed to one.
func comeBack(ctx context.Context, w *World, v Variant) (rundir.Measured, error) {
	parts := (v.N + SeedPart - 1) / SeedPart
	among := func(i int) types.NamespacedName {
		return types.NamespacedName{Namespace: seedNamespace(i % parts), Name: object("new", i).Name}
	}
	if _, err := w.createNamed(ctx, among, v.M, v.Replicas()); err != nil {
		return nil, err
	}
	measured, err := w.measureStart(ctx, v.M, v.N+v.M)
	delete(measured, rundir.Objects)
	return measured, err
}

func restart(ctx context.Context, w *World, v Variant) (rundir.Measured, error) {
	if _, err := w.finish(ctx, v); err != nil {
		return nil, err
	}
	if err := w.stop(ctx); err != nil {
		return nil, err
	}
	return w.measureStart(ctx, v.N, v.N)
}

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
	win := &window{world: w, from: w.started, server: server}
	if err := w.converge(ctx, w.Judge.finished, "finished", awaited, n-awaited); err != nil {
		return nil, err
	}
	if err := w.settle(ctx, n); err != nil {
		return nil, err
	}
	measured := rundir.Measured{rundir.Objects: float64(n)}
	addStart(measured, w.Proxy.Record(), w.started)
	return measured, win.close(measured)
}

func idle(ctx context.Context, w *World, v Variant) (rundir.Measured, error) {
	ctx, win, err := w.openFinished(ctx, v)
	if err != nil {
		return nil, err
	}
	timer, ticker := time.NewTimer(time.Duration(v.Seconds)*time.Second), time.NewTicker(time.Second)
	defer timer.Stop()
	defer ticker.Stop()
	for over := false; !over; {
		select {
		case <-timer.C:
			over = true
		case <-ticker.C:
			w.Progress("idle", int(time.Since(win.from).Seconds()), v.Seconds)
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	measured := rundir.Measured{rundir.Objects: float64(v.N)}
	return measured, win.close(measured)
}
