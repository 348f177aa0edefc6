package scenario

import (
	"context"
	"time"

	"github.com/bellerophon-io/bellerophon/bench/rundir"
)

var steady = Scenario{
	Name: "steady", about: "n objects are created at load percent of the ideal client's rate",
	Creates: true, Sweeps: true, Warms: true, Paced: true, parts: []part{partN, partLoad}, run: runSteady,
	sizes: map[Size][]Variant{
		Short: {{N: 100, Load: 50}, {N: 30, Load: 10}}, Full: {{N: 3000, Load: 50}, {N: 3000, Load: 75}, {N: 500, Load: 10}},
		Small: {{N: 100, Load: 50}, {N: 20, Load: 10}}, Medium: {{N: 300, Load: 50}, {N: 60, Load: 10}}, Tiny: {{N: 10, Load: 50}},
	},
	Goals: []Goal{
		{Row: 5, Name: "reaction-p99-half-load", Measure: string(rundir.Reaction99), MinLoad: 50, MaxLoad: 50, Targets: []Target{
			AtMost("controller-runtime", 0.5), AtMost("controller-runtime-equal", 1.1),
			AtMost("quarkus", 0.3), AtMost("quarkus-container", 0.3), AtMost("kube-rs", 1), AtMost("kube-rs-equal", 1.1),
		}},
		{Row: 6, Name: "create-to-ready-p50-low-load", Measure: string(rundir.ReadyMedian), MinLoad: 1, MaxLoad: 49, Targets: []Target{
			AtMost("controller-runtime", 0.8), AtMost("controller-runtime-equal", 1.1),
			AtMost("quarkus", 0.6), AtMost("quarkus-container", 0.6), AtMost("kube-rs", 1), AtMost("kube-rs-equal", 1.1),
		}},
	},
}

func runSteady(ctx context.Context, w *World, v Variant) (rundir.Measured, error) {
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
