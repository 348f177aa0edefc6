package scenario

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"
)

// counter counts completed requests. It may be used from any goroutine.
type counter struct{ done atomic.Int64 }

func (c *counter) next() int { return int(c.done.Add(1)) }

const (
	warmObjects = 500
	warmRounds  = 10 // of changes: 5,000 statuses get finished, each after at least one reconcile
	clearLimit  = 5 * time.Minute
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
