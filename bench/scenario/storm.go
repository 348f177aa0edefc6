package scenario

import (
	"context"
	"fmt"
	"time"

	"github.com/bellerophon-io/bellerophon/bench/rundir"
)

var storm = Scenario{
	Name: "storm", about: "n objects without servers are changed m times each, as fast as the API server takes the changes",
	Warms: true, parts: []part{partN, partM}, run: runStorm,
	sizes: map[Size][]Variant{
		Short: {{N: 20, M: 5, noServers: true}}, Full: {{N: 500, M: 20, noServers: true}},
		Medium: {{N: 200, M: 10, noServers: true}}, Tiny: {{N: 5, M: 2, noServers: true}},
	},
	Goals: []Goal{
		{Row: 16, Name: "writes-per-object-in-a-storm", Measure: "writes_per_object", Targets: []Target{
			AtMost("controller-runtime-equal", 1), AtMost("kube-rs-equal", 1), AtMost("quarkus-container", 1),
		}},
		{Row: 17, Name: "time-of-a-storm", Measure: string(rundir.Converge), Targets: []Target{
			AtMost("controller-runtime-equal", 1), AtMost("kube-rs-equal", 1), AtMost("quarkus-container", 1),
		}},
	},
}

func runStorm(ctx context.Context, w *World, v Variant) (rundir.Measured, error) {
	ctx, win, err := w.openFinished(ctx, v)
	if err != nil {
		return nil, err
	}
	answered, sent := newTimes(), counter{}
	for round := range v.M {
		err := w.renameAll(ctx, "hero", v.N, fmt.Sprint("storm ", round), func(i int) {
			answered.set(object("hero", i), time.Now())
			w.Progress("changing objects", sent.next(), v.N*v.M)
		})
		if err != nil {
			return nil, err
		}
	}
	return win.closeFinished(ctx, v.N, answered.of, nil)
}
