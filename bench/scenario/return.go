package scenario

import (
	"context"

	"github.com/bellerophon-io/bellerophon/bench/rundir"
	"k8s.io/apimachinery/pkg/types"
)

var comeBack = Scenario{
	Name: "return", about: "n objects are finished and m were created while the contender was down, when it is started",
	Found: true, Limits: true, Starts: true, parts: []part{partN, partM}, run: runReturn,
	sizes: map[Size][]Variant{Short: {{N: 500, M: 10}}, Full: {{N: 50_000, M: 100}, {N: 10_000, M: 100}}},
	Goals: []Goal{
		{Row: 1, Name: "peak-memory", Measure: string(rundir.PeakMemory), Else: []string{"start", "burst"}, N: 50_000, Targets: []Target{
			AtMost("controller-runtime", 0.5), AtMost("controller-runtime-tuned", 0.7), AtMost("quarkus", 0.25), AtMost("quarkus-container", 0.25),
			AtMost("kube-rs", 1), AtMost("kube-rs-equal", 1),
		}},
		{Row: 7, Name: "exec-to-first-write", Measure: string(rundir.FirstWrite), Else: []string{"start"}, N: 50_000, Targets: []Target{
			AtMost("controller-runtime", 0.5), AtMost("quarkus", 0.2), AtMost("quarkus-container", 0.2), AtMost("kube-rs", 1),
		}},
		{Row: 20, Name: "exec-to-ready-of-new-objects", Measure: string(rundir.ExecReadyMedian), N: 50_000, Targets: []Target{
			{Peer: "none", By: Level, Sign: "<=", Bound: 1},
		}},
	},
}

// runReturn leaves the n objects finished, and only the m new ones have to be finished. They are spread
// over the namespaces of the others. It measures no number of objects, because CPU and writes cannot be
// attributed to one.
func runReturn(ctx context.Context, w *World, v Variant) (rundir.Measured, error) {
	parts := (v.N + SeedPart - 1) / SeedPart
	among := func(i int) types.NamespacedName {
		return types.NamespacedName{Namespace: seedNamespace(i % parts), Name: object("new", i).Name}
	}
	created, err := w.createNamed(ctx, among, v.M, v.Replicas())
	if err != nil {
		return nil, err
	}
	measured, err := w.measureStart(ctx, created.names(), v.N+v.M)
	delete(measured, rundir.Objects)
	return measured, err
}
