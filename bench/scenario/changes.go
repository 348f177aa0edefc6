package scenario

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bellerophon-io/bellerophon/bench/measure"
	"github.com/bellerophon-io/bellerophon/bench/rundir"
)

// counter counts completed requests. It may be used from any goroutine.
type counter struct{ done atomic.Int64 }

func (c *counter) next() int { return int(c.done.Add(1)) }

const (
	warmObjects = 500
	warmRounds  = 10 // of changes: 5,000 statuses get finished, each after at least one reconcile
	clearLimit  = 5 * time.Minute
	// churnLoad is the rate at which objects are replaced, as a share of the ideal client's rate.
	churnLoad = 0.25
)

// warmUp makes the contender reconcile at least 5,000 times, and then removes the objects.
func (w *World) warmUp(ctx context.Context) error {
	if _, err := w.createAll(ctx, "warm", warmObjects, 0); err != nil {
		return err
	}
	for round := range warmRounds {
		if err := w.converge(ctx, w.Judge.finished, fmt.Sprintf("warm (round %d of %d)", round+1, warmRounds), warmObjects, 0); err != nil {
			return err
		}
		if err := w.renameAll(ctx, "warm", warmObjects, fmt.Sprint("warm ", round), func(int) {}); err != nil {
			return err
		}
	}
	if err := w.convergeAndSettle(ctx, w.Judge.finished, "warm", warmObjects); err != nil {
		return err
	}
	w.Progress("clearing up after the warm-up", 0, 0)
	limited, cancel := context.WithTimeoutCause(ctx, clearLimit, fmt.Errorf("the objects of the warm-up were not deleted within %v", clearLimit))
	defer cancel()
	if err := w.Clients.Clear(limited, Namespace); err != nil {
		return err
	}
	// Clear does not wait for the thousands of StatefulSet revisions, which are collected last.
	if err := w.Calm(limited); err != nil {
		return err
	}
	return w.settle(ctx, warmObjects)
}

// renameAll changes each object once and sets the new generations as wanted. It calls each after
// every change.
func (w *World) renameAll(ctx context.Context, prefix string, n int, horse string, each func(i int)) error {
	return asFastAsPossible(ctx, n, func(ctx context.Context, i int) error {
		name := object(prefix, i)
		generation, err := w.Clients.rename(ctx, name, horse)
		if err != nil {
			return err
		}
		w.Judge.finished.want(name, uint64(generation))
		each(i)
		return nil
	})
}

func storm(ctx context.Context, w *World, v Variant) (rundir.Measured, error) {
	ctx, win, err := w.openFinished(ctx, v)
	if err != nil {
		return nil, err
	}
	answered, sent := newTimes(), counter{}
	for round := range v.M {
		err := w.renameAll(ctx, "hero", v.N, fmt.Sprint("storm ", round), func(i int) {
			answered.set(object("hero", i), time.Now())
			w.Progress("changing objects", sent.next(), v.N*v.M)
		})
		if err != nil {
			return nil, err
		}
	}
	return win.closeFinished(ctx, v.N, answered.of, nil)
}

func drift(ctx context.Context, w *World, v Variant) (rundir.Measured, error) {
	ctx, err := w.finish(ctx, v)
	if err != nil {
		return nil, err
	}
	w.Judge.followChildren()
	win, err := w.open()
	if err != nil {
		return nil, err
	}
	answered, sent := newTimes(), counter{}
	var mu sync.Mutex
	versions := map[uint64]string{}
	err = asFastAsPossible(ctx, v.N, func(ctx context.Context, i int) error {
		child, name := children[i%len(children)], object("hero", i)
		version, err := w.Clients.drift(ctx, child, name)
		if err != nil {
			return err
		}
		answered.set(child.of(name), time.Now())
		mu.Lock()
		versions[version] = child.resource
		mu.Unlock()
		w.Judge.repaired.want(child.of(name), version+1)
		w.Progress("changing children", sent.next(), v.N)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return win.closeLoad(ctx, w.Judge.repaired, "repaired", v.N, answered.of, measure.Versions(versions))
}

func churn(ctx context.Context, w *World, v Variant) (rundir.Measured, error) {
	ctx, win, err := w.openFinished(ctx, v)
	if err != nil {
		return nil, err
	}
	due, sent := newTimes(), counter{}
	rate := w.Rate * churnLoad
	err = atRate(ctx, rate, v.M, func(ctx context.Context, i int, at time.Time) error {
		// The i-th object has existed while n others were created.
		if err := w.Clients.remove(ctx, object("hero", i)); err != nil {
			return err
		}
		name := object("hero", v.N+i)
		due.set(name, at)
		w.Judge.finished.want(name, 1) // Before create: a want after the object's deletion would never be met.
		if err := w.Clients.create(ctx, name, v.Replicas()); err != nil {
			return err
		}
		w.Progress("replacing objects", sent.next(), v.M)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return win.closePaced(ctx, rate, v.N, due.of)
}
