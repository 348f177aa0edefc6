package scenario

import (
	"context"
	"time"

	"github.com/bellerophon-io/bellerophon/bench/rundir"
)

var churn = Scenario{
	Name: "churn", about: "m times, the oldest of n objects is deleted and a new one is created",
	Paced: true, parts: []part{{partN.name, partN.of, 10, partN.maximum}, partM}, run: runChurn,
	sizes: map[Size][]Variant{Short: {{N: 20, M: 40}}, Full: {{N: 500, M: 3000}}, Medium: {{N: 100, M: 300}}, Tiny: {{N: 10, M: 10}}},
}

// churnLoad is the rate at which objects are replaced, as a share of the ideal client's rate.
const churnLoad = 0.25

func runChurn(ctx context.Context, w *World, v Variant) (rundir.Measured, error) {
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
