package scenario

import (
	"context"

	"github.com/bellerophon-io/bellerophon/bench/rundir"
)

var start = Scenario{
	Name: "start", about: "n objects exist, without children, when the contender is started",
	Creates: true, Starts: true, parts: []part{{partN.name, partN.of, 0, partN.maximum}}, run: runStart,
	sizes: map[Size][]Variant{Short: {{N: 100}}, Full: {{N: 0}, {N: 10_000}, {N: 50_000}}, Small: {{N: 100}}, Medium: {{N: 2000}}, Tiny: {{N: 5}}},
}

// runStart creates one object with n=0, so that there is something to write.
func runStart(ctx context.Context, w *World, v Variant) (rundir.Measured, error) {
	n := max(1, v.N)
	created, err := w.createAll(ctx, "hero", n, v.Replicas())
	if err != nil {
		return nil, err
	}
	return w.measureStart(ctx, created.names(), n)
}
