package scenario

import (
	"context"

	"github.com/bellerophon-io/bellerophon/bench/rundir"
)

var restart = Scenario{
	Name: "restart", about: "n objects are finished when the contender is restarted",
	NoWork: true, Starts: true, parts: []part{partN}, run: runRestart,
	sizes: map[Size][]Variant{Short: {{N: 50}}, Full: {{N: 1000}, {N: 10_000}}, Small: {{N: 50}}, Medium: {{N: 500}}, Tiny: {{N: 5}}},
	Goals: []Goal{
		{Row: 11, Name: "writes-after-restart", Measure: string(rundir.Writes), Targets: []Target{{Peer: "none", By: Ceiling, Sign: "=", Bound: 0}}},
		{Row: 12, Name: "reads-after-restart", Measure: string(rundir.Reads), Targets: []Target{{Peer: "none", By: Ceiling, Sign: "=", Bound: 0}}},
	},
}

func runRestart(ctx context.Context, w *World, v Variant) (rundir.Measured, error) {
	if _, err := w.finish(ctx, v); err != nil {
		return nil, err
	}
	if err := w.stop(ctx); err != nil {
		return nil, err
	}
	return w.measureStart(ctx, nil, v.N)
}
