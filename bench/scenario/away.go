package scenario

import (
	"context"
	"fmt"

	"github.com/bellerophon-io/bellerophon/bench/rundir"
	"k8s.io/apimachinery/pkg/types"
)

var away = Scenario{
	Name: "away", about: "n objects are finished and m of them were changed while the contender was down, when it is started",
	Found: true, Limits: true, Starts: true, parts: []part{partN, partM}, run: runAway,
	sizes: map[Size][]Variant{Short: {{N: 500, M: 10}}, Full: {{N: 50_000, M: 100}, {N: 10_000, M: 100}}},
}

// foundObject returns the name of the i-th object that exists before a round. The ideal client made it.
func foundObject(i int) types.NamespacedName {
	return types.NamespacedName{Namespace: seedNamespace(i / SeedPart), Name: fmt.Sprintf("hero-%d", i%SeedPart)}
}

// runAway changes the horses of m objects, spread over all of them. Nothing of their status tells that they
// changed, so no field selector finds them: only a list of all objects does. The found data of return serve
// here too, because a contender would need many minutes to finish 50,000 objects in each round. Like return,
// it measures no number of objects.
func runAway(ctx context.Context, w *World, v Variant) (rundir.Measured, error) {
	m, done := min(v.M, v.N), counter{}
	changed := make([]types.NamespacedName, m)
	err := asFastAsPossible(ctx, m, func(ctx context.Context, i int) error {
		changed[i] = foundObject(i * v.N / m)
		generation, err := w.Clients.rename(ctx, changed[i], "arion")
		if err != nil {
			return err
		}
		w.Judge.finished.want(changed[i], uint64(generation))
		w.Progress("changing objects", done.next(), m)
		return nil
	})
	if err != nil {
		return nil, err
	}
	measured, err := w.measureStart(ctx, changed, v.N)
	delete(measured, rundir.Objects)
	return measured, err
}
