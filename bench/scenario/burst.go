package scenario

import (
	"context"

	"github.com/bellerophon-io/bellerophon/bench/rundir"
)

var burst = Scenario{
	Name: "burst", about: "n objects are created as fast as the API server takes them",
	Creates: true, Sweeps: true, Warms: true, Limits: true, parts: []part{partN}, run: runBurst,
	sizes: map[Size][]Variant{Short: {{N: 100}}, Full: {{N: 1000}, {N: 5000}}, Small: {{N: 100}}, Medium: {{N: 1000}}},
	Goals: []Goal{
		{Row: 2, Name: "contender-cpu-per-1000", Measure: "contender_cpu_seconds_per_1000", Targets: []Target{
			AtMost("controller-runtime", 0.5), AtMost("controller-runtime-equal", 1),
			AtMost("quarkus", 0.3), AtMost("quarkus-container", 0.3), AtMost("kube-rs", 1.2), AtMost("kube-rs-equal", 1.2),
		}},
		{Row: 3, Name: "server-cpu-per-object", Measure: "server_cpu_seconds_per_object", Targets: []Target{
			AtMost("controller-runtime", 0.7), AtMost("controller-runtime-equal", 1.1), AtMost("quarkus", 0.7), AtMost("quarkus-container", 0.7),
			AtMost("kube-rs", 0.8), AtMost("kube-rs-equal", 1.1), AtMost("ideal", 1.1), AtMost("ideal-progress", 1.1),
		}},
		// With servers, the contract asks for progress, which takes a further write.
		{Row: 4, Name: "writes-per-object", Measure: "writes_per_object", MinN: ManyObjects + 1, Targets: []Target{
			{Peer: "floor", By: Level, Sign: "=", Bound: 4}, {Peer: "ideal", By: Ratio, Sign: "=", Bound: 1},
		}},
		{Row: 8, Name: "converge-rate", Measure: string(rundir.Converge), N: 5000, Targets: []Target{{Peer: "ideal", By: Rate, Sign: ">=", Bound: 0.85}}},
		{Row: 13, Name: "converge-rate-with-progress", Measure: string(rundir.Converge), N: ManyObjects, Targets: []Target{
			{Peer: "ideal-progress", By: Rate, Sign: ">=", Bound: 0.9},
		}},
		{Row: 14, Name: "event-to-first-write-p99", Measure: string(rundir.Reaction99), N: ManyObjects, Targets: []Target{
			AtMost("kube-rs", 2), AtMost("kube-rs-equal", 2),
		}},
		{Row: 19, Name: "converge-over-10-ms", Measure: string(rundir.Converge), RTT: 10, Targets: []Target{
			AtMost("controller-runtime-equal", 1), AtMost("kube-rs-equal", 1), AtMost("quarkus-container", 1),
		}},
		{Row: 15, Name: "settled-memory-of-100", Measure: string(rundir.SettledMemory), N: 100, Targets: []Target{AtMost("kube-rs-equal", 1)}},
	},
}

func runBurst(ctx context.Context, w *World, v Variant) (rundir.Measured, error) {
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
