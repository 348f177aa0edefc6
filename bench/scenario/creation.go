package scenario

import (
	"context"
	"sync"
	"time"

	"github.com/bellerophon-io/bellerophon/bench/outcome"
	"k8s.io/apimachinery/pkg/types"
)

// times are points in time by object. Its methods may be called from any goroutine.
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

// createAll creates objects as fast as possible, wants them finished, and returns when
// each creation was answered.
func (w *World) createAll(ctx context.Context, prefix string, n int, replicas int32) (*times, error) {
	return w.createNamed(ctx, func(i int) types.NamespacedName { return object(prefix, i) }, n, replicas)
}

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

// finish starts the contender and lets it finish the objects of a variant.
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

// ready starts the contender, and warms it up where that is wanted.
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

func burst(ctx context.Context, w *World, v Variant) (outcome.Measured, error) {
	ctx, err := w.ready(ctx)
	if err != nil {
		return nil, err
	}
	win, err := w.open()
	if err != nil {
		return nil, err
	}
	answered, err := w.createAll(ctx, "hero", v.N, v.Replicas())
	if err != nil {
		return nil, err
	}
	return win.closeFinished(ctx, v.N, answered.of, nil)
}

func steady(ctx context.Context, w *World, v Variant) (outcome.Measured, error) {
	ctx, err := w.ready(ctx)
	if err != nil {
		return nil, err
	}
	win, err := w.open()
	if err != nil {
		return nil, err
	}
	intended, sent := newTimes(), counter{}
	rate := w.Rate * float64(v.Load) / 100
	err = atRate(ctx, rate, v.N, func(ctx context.Context, i int, due time.Time) error {
		name := object("hero", i)
		intended.set(name, due)
		w.Judge.finished.want(name, 1)
		if err := w.Clients.create(ctx, name, v.Replicas()); err != nil {
			return err
		}
		w.Progress("steady load", sent.next(), v.N)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return win.closePaced(ctx, rate, v.N, intended.of)
}
