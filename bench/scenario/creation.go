package scenario

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// times holds one point in time for each object. set may be called from any goroutine.
type times struct {
	mu sync.Mutex
	of map[types.NamespacedName]time.Time
}

func newTimes() *times { return &times{of: map[types.NamespacedName]time.Time{}} }

func (t *times) set(name types.NamespacedName, at time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.of[name] = at
}

// createAll creates n objects as fast as possible and sets them as wanted. It returns the times at
// which the creations were answered.
func (w *World) createAll(ctx context.Context, prefix string, n int, replicas int32) (*times, error) {
	return w.createNamed(ctx, func(i int) types.NamespacedName { return object(prefix, i) }, n, replicas)
}

// createNamed works like createAll, for objects whose names are the results of the function of.
func (w *World) createNamed(ctx context.Context, of func(i int) types.NamespacedName, n int, replicas int32) (*times, error) {
	answered, done := newTimes(), counter{}
	err := asFastAsPossible(ctx, n, func(ctx context.Context, i int) error {
		name := of(i)
		w.Judge.finished.want(name, 1)
		if err := w.Clients.create(ctx, name, replicas); err != nil {
			return err
		}
		answered.set(name, time.Now())
		w.Progress("creating objects", done.next(), n)
		return nil
	})
	return answered, err
}

// finish starts the contender, creates the objects of a variant, and waits until the contender has
// finished them and is quiet.
func (w *World) finish(ctx context.Context, v Variant) (context.Context, error) {
	ctx, err := w.ready(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := w.createAll(ctx, "hero", v.N, v.Replicas()); err != nil {
		return nil, err
	}
	return ctx, w.convergeAndSettle(ctx, w.Judge.finished, "finished", v.N)
}

// ready starts the contender, waits until it is quiet, and warms it up if Warm is set.
func (w *World) ready(ctx context.Context) (context.Context, error) {
	ctx, err := w.start(ctx)
	if err != nil {
		return nil, err
	}
	if err := w.settle(ctx, 0); err != nil {
		return nil, err
	}
	if w.Warm {
		return ctx, w.warmUp(ctx)
	}
	return ctx, nil
}
