package report

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/bellerophon-io/bellerophon/bench/rundir"
)

func TestTheWidthIsThatOfTheWidestIntervalBesideBellerophon(t *testing.T) {
	rounds := slices.Concat(
		of("burst", "n=5", Ours, rundir.Converge, 10, 20, 30, 40, 50, 60, 70, 80),
		of("burst", "n=5", "kube-rs", rundir.Converge, 20, 40, 60, 80, 100, 120, 140, 160),
		of("burst", "n=5", "quarkus", rundir.Converge, 10, 40, 30, 80, 50, 120, 70),
		of("burst", "n=5", "ideal", rundir.Converge, 1, 100, 1, 100, 1, 100, 1, 100),
		with(func(round *rundir.Round) { round.Setting = "workers=1" }, of("burst", "n=5", "kube-rs", rundir.Converge, 1, 100, 1, 100)),
	)
	width, turns, has := Width("converge_seconds", rounds)
	if !has || turns != 7 || width != 1 { // The ratios of quarkus are 1 and 2.
		t.Errorf("got %v of %d turns, %v", width, turns, has)
	}
	if _, _, has := Width("converge_seconds", of("burst", "n=5", Ours, rundir.Converge, 1)); has {
		t.Error("Bellerophon alone has a width")
	}
	if text := howScenariosEnded(rundir.Run{Turns: 12, Until: rundir.Until{Measure: "converge_seconds", Width: 0.1, Minimum: 8}}, rounds); !strings.Contains(text, "burst n=5: 1 of the ratio, after 7 turns") {
		t.Errorf("the report says %q", text)
	}
	if text := howScenariosEnded(rundir.Run{Turns: 12}, rounds); text != "" {
		t.Errorf("a run without a rule says %q", text)
	}
}

// TestAnIntervalThatEndedItsRunHoldsTheTrueRatioNearlyAsOften looks after each turn, as a run does. An
// interval that is narrow by chance would end it, and hold the true ratio less often.
func TestAnIntervalThatEndedItsRunHoldsTheTrueRatioNearlyAsOften(t *testing.T) {
	random := rand.New(rand.NewPCG(11, 11))
	const trials = 200
	held, turns := 0, 0
	for range trials {
		var ratios []float64
		var is interval
		for len(ratios) < 20 {
			ratios = append(ratios, math.Exp(0.1*random.NormFloat64()))
			if len(ratios) < 8 {
				continue
			}
			if is = intervalOf(ratios); (is.high-is.low)/is.median <= 0.14 {
				break
			}
		}
		turns += len(ratios)
		if is.low <= 1 && 1 <= is.high {
			held++
		}
	}
	if share := float64(held) / trials; share < 0.85 {
		t.Errorf("intervals that ended a run hold the true ratio in %.3f of the cases, after %.1f turns", share, float64(turns)/trials)
	} else {
		t.Logf("intervals that ended a run hold the true ratio in %.3f of the cases, after %.1f turns", share, float64(turns)/trials)
	}
}
