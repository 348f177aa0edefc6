package harness

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/bellerophon-io/bellerophon/bench/rundir"
)

// untilNarrow returns the options of a run that ends by its rule.
func untilNarrow(t *testing.T) Options {
	o := options(t)
	o.Contenders, o.Scenarios, o.Turns, o.Until = "bellerophon,kube-rs,ideal", "burst:n=5,drift:n=5", 12, "converge_seconds=0.1"
	return o
}

// converging measures a machine whose speed changes. In drift, the ratio to kube-rs changes too.
func converging(p planned) (rundir.Measured, error) {
	seconds := float64(10 + p.Turn)
	if p.Contender == "kube-rs" {
		seconds *= 2
		if p.Scenario == "drift" {
			seconds *= float64(1 + p.Turn%2)
		}
	}
	return rundir.Measured{rundir.Converge: seconds, rundir.IdealConverge: 1}, nil
}

// turnsOf returns the largest turn of each scenario.
func turnsOf(t *testing.T, dir string) map[string]int {
	t.Helper()
	rounds, err := rundir.ReadRounds(dir)
	if err != nil {
		t.Fatal(err)
	}
	turns := map[string]int{}
	for _, round := range rounds {
		turns[round.Scenario] = max(turns[round.Scenario], round.Turn+1)
	}
	return turns
}

func TestAScenarioGetsNoFurtherTurnOnceItsIntervalsAreNarrow(t *testing.T) {
	r, made := fake(t, untilNarrow(t), converging)
	r.show.total = 0
	if err := r.rounds(t.Context()); err != nil {
		t.Fatal(err)
	}
	if turns := turnsOf(t, r.Dir); turns["burst"] != 8 || turns["drift"] != 12 {
		t.Errorf("the turns are %v, want 8 of burst, whose ratio is the same in each, and all 12 of drift", turns)
	}
	if r.show.total != len(*made) || r.show.done != len(*made) {
		t.Errorf("the progress is %d of %d, after %d rounds", r.show.done, r.show.total, len(*made))
	}
}

func TestARunThatResumesEndsWhereItWouldHaveEnded(t *testing.T) {
	for _, after := range []int{1, 7, 34, 41, 47} {
		o, stopped := untilNarrow(t), errors.New("stopped")
		ctx, cancel := context.WithCancelCause(t.Context())
		rounds := 0
		r, _ := fake(t, o, func(p planned) (rundir.Measured, error) {
			if rounds++; rounds == after {
				cancel(stopped)
			}
			return converging(p)
		})
		if err := r.rounds(ctx); !errors.Is(err, stopped) {
			t.Fatalf("after %d rounds: %v", after, err)
		}
		r, _ = fake(t, o, converging)
		if err := r.rounds(t.Context()); err != nil {
			t.Fatal(err)
		}
		if turns := turnsOf(t, r.Dir); turns["burst"] != 8 || turns["drift"] != 12 {
			t.Errorf("stopped after %d rounds and resumed, the turns are %v, want 8 of burst and 12 of drift", after, turns)
		}
	}
}

func TestAContenderThatFailsKeepsItsScenarioFromEndingEarly(t *testing.T) {
	o := untilNarrow(t)
	o.Scenarios = "burst:n=5"
	r, _ := fake(t, o, func(p planned) (rundir.Measured, error) {
		if p.Contender == "kube-rs" && p.Turn == 3 {
			return nil, errors.New("no cluster")
		}
		return converging(p)
	})
	if err := r.rounds(t.Context()); err != nil {
		t.Fatal(err)
	}
	rounds, err := rundir.ReadRounds(r.Dir)
	if err != nil {
		t.Fatal(err)
	}
	made := map[int]int{}
	for _, round := range rounds {
		made[round.Turn]++
	}
	// Turn 3 has no ratio, so the ninth turn is the eighth with one. A whole turn repeats turn 3.
	for turn, want := range map[int]int{3: 3, 8: 3, 9: 0, 11: 0, 12: 3} {
		if made[turn] != want {
			t.Errorf("turn %d has %d rounds, want %d", turn, made[turn], want)
		}
	}
}

func TestTheRuleOfARunIsFixedBeforeItStarts(t *testing.T) {
	o := untilNarrow(t)
	r, _ := fake(t, o, converging)
	r.contenders = nil
	if err := r.begin(nil); err != nil {
		t.Fatal(err)
	}
	described, err := rundir.ReadRun(o.Dir)
	if want := (rundir.Until{Measure: "converge_seconds", Width: 0.1, Minimum: 8}); err != nil || described.Until != want || described.Turns != 12 {
		t.Errorf("before the first round, run.json has the rule %+v with %d turns: %v", described.Until, described.Turns, err)
	}
	if err := r.begin(nil); err != nil {
		t.Errorf("the same rule is refused: %v", err)
	}
	for name, test := range map[string]struct {
		change func(*run)
		want   string
	}{
		"a wider interval": {func(r *run) { r.Until = "converge_seconds=0.2" }, "other flags"},
		"another measure":  {func(r *run) { r.Until = "writes_per_object=0.1" }, "other flags"},
		"no rule":          {func(r *run) { r.Until = "" }, "other flags"},
		"more turns":       {func(r *run) { r.Turns = 13 }, "ends after 12 turns at the latest"},
		"fewer turns":      {func(r *run) { r.Turns = 11 }, "other flags"},
	} {
		again, _ := fake(t, o, converging)
		again.contenders = nil
		test.change(again)
		if err := again.begin(nil); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
	}
}

func TestARuleIsValidatedWithTheAllowedRange(t *testing.T) {
	for until, want := range map[string]string{
		"soon=0.1":              `--until has the measure "soon"`,
		"calls_get=0.1":         `--until has the measure "calls_get"`,
		"converge_seconds":      `--until has the width ""; allowed is 0.01 to 1`,
		"converge_seconds=NaN":  `--until has the width "NaN"`,
		"converge_seconds=0":    `--until has the width "0"`,
		"converge_seconds=1.01": `--until has the width "1.01"`,
	} {
		o := untilNarrow(t)
		o.Until = until
		if _, err := o.complete(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("--until=%s: %v, want %q", until, err, want)
		}
	}
	o := untilNarrow(t)
	o.Turns = 7
	if _, err := o.complete(); err == nil || !strings.Contains(err.Error(), "allowed is 8 to 100") {
		t.Errorf("7 turns: %v", err)
	}
	o = untilNarrow(t)
	o.Contenders = "kube-rs,ideal"
	if _, err := o.complete(); err == nil || !strings.Contains(err.Error(), "--until needs ratios to bellerophon") {
		t.Errorf("without Bellerophon: %v", err)
	}
	o = untilNarrow(t)
	chosen, err := o.complete()
	if err != nil || !slices.Contains((&run{choice: chosen}).flags(), "--until="+o.Until) {
		t.Error(fmt.Errorf("the flags that repeat the run lack --until: %w", err))
	}
}
