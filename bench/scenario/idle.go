package scenario

import (
	"context"

	"github.com/bellerophon-io/bellerophon/bench/rundir"
)

var idle = Scenario{
	Name: "idle", about: "n objects are finished and nothing happens for the given number of seconds",
	NoWork: true, parts: []part{partN, partSeconds}, run: runIdle,
	sizes: map[Size][]Variant{
		Short: {{N: 20, Seconds: 10}}, Full: {{N: 1000, Seconds: 300}, {N: 10_000, Seconds: 300}},
		Small: {{N: 20, Seconds: 5}}, Medium: {{N: 100, Seconds: 60}}, Tiny: {{N: 5, Seconds: 2}},
	},
	Goals: []Goal{
		{Row: 9, Name: "writes-while-idle", Measure: string(rundir.Writes), Targets: []Target{{Peer: "none", By: Ceiling, Sign: "=", Bound: 0}}},
		{Row: 10, Name: "reads-while-idle", Measure: string(rundir.Reads), Targets: []Target{{Peer: "none", By: Ceiling, Sign: "=", Bound: 0}}},
		{Row: 18, Name: "settled-memory-while-idle", Measure: string(rundir.SettledMemory), N: 100, Targets: []Target{
			{Peer: "none", By: Ceiling, Sign: "<=", Bound: 25e6},
		}},
	},
}

func runIdle(ctx context.Context, w *World, v Variant) (rundir.Measured, error) {
	ctx, win, err := w.openFinished(ctx, v)
	if err != nil {
		return nil, err
	}
	if err := w.wait(ctx, "idle", win.from, v.Seconds); err != nil {
		return nil, err
	}
	measured := rundir.Measured{rundir.Objects: float64(v.N)}
	return measured, win.close(measured)
}
