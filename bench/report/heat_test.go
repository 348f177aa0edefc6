package report

import (
	"fmt"
	"strings"
	"testing"

	"github.com/bellerophon-io/bellerophon/bench/rundir"
)

func TestTheHeatMapDecidesByIntervalsAndShowsLossesBesideWins(t *testing.T) {
	var rounds []rundir.Round
	add := func(contender string, measure rundir.Measure, values ...float64) {
		for turn, value := range values {
			at := -1
			for i := range rounds {
				if rounds[i].Contender == contender && rounds[i].Turn == turn {
					at = i
				}
			}
			if at < 0 {
				rounds = append(rounds, of("burst", "n=100", contender, measure, value)...)
				at = len(rounds) - 1
				rounds[at].Turn = turn
			}
			rounds[at].Measured[measure] = value
		}
	}
	// The machine gets slower with each turn, and the ratios stay.
	add(Ours, rundir.Converge, 10, 20, 30, 40, 50, 60)
	add("kube-rs", rundir.Converge, 5, 10, 15, 20, 25, 30)
	add("controller-runtime", rundir.Converge, 20, 40, 60, 80, 100, 120)
	add(Ours, rundir.PeakMemory, 10, 10, 10, 10, 10, 10)
	add("kube-rs", rundir.PeakMemory, 9, 11, 9, 11, 9, 11)
	add("controller-runtime", rundir.PeakMemory, 90, 90)
	add("ideal", rundir.Converge, 1, 1, 1, 1, 1, 1)
	rounds = append(rounds, with(func(round *rundir.Round) { round.Failed = "it ended" }, of("burst", "n=100", "quarkus", rundir.Converge, 1))...)

	heat := heatOf(rundir.Run{Contenders: []string{"controller-runtime", "kube-rs", "ideal"}}, rounds)
	if got, want := strings.Join(heat.Contenders, " "), "controller-runtime kube-rs"; got != want {
		t.Errorf("the columns are %q, want %q", got, want)
	}
	var said []string
	for _, row := range heat.Rows {
		said = append(said, row.Ours)
		for _, cell := range row.Cells {
			said = append(said, cell.Mark()+cell.Words()+" "+cell.Class())
		}
	}
	want := []string{"35.0 s", "▲ 2.00 (2.00 to 2.00) better", "▼ 0.50 (0.50 to 0.50) worse", "10.0 B", "9.00 (only 2 turns) undecided", "1.00 (0.90 to 1.10) undecided"}
	if got := strings.Join(said, "\n"); got != strings.Join(want, "\n") {
		t.Errorf("the cells are\n%s\nwant\n%s", got, strings.Join(want, "\n"))
	}
	if got, want := heat.Sentence(), "Of 4 comparisons, Bellerophon is better in 1 and worse in 1; 2 are undecided, 1 of them for lack of turns."; got != want {
		t.Errorf("the sentence is %q, want %q", got, want)
	}
	if got, want := fmt.Sprint(heat.Totals), "[{1 0 1} {0 1 1}]"; got != want {
		t.Errorf("the totals are %s, want %s", got, want)
	}
	if len(heat.Wins) != 1 || len(heat.Losses) != 1 || !strings.Contains(heat.Losses[0], "Bellerophon 35.0 s, kube-rs 17.5 s, which is 0.50 (0.50 to 0.50) times") {
		t.Errorf("the wins are %q and the losses %q", heat.Wins, heat.Losses)
	}
	if none := heatOf(rundir.Run{}, nil); none.Sentence() != "No other contender has a value beside Bellerophon's." {
		t.Errorf("without rounds: %q", none.Sentence())
	}
}

func TestTheHeatMapSaysThatAJVMWasCold(t *testing.T) {
	var rounds []rundir.Round
	for turn, value := range []float64{1, 2} {
		for _, name := range []string{Ours, "quarkus"} {
			for _, isWarm := range []bool{false, true} {
				rounds = append(rounds, with(func(round *rundir.Round) { round.Warm, round.Turn = isWarm, turn }, of("burst", "n=100", name, rundir.Converge, value))...)
			}
		}
	}
	heat := heatOf(rundir.Run{}, append(rounds, of("storm", "n=100,m=10", Ours, rundir.Converge, 3)...))
	if got, want := strings.Join(heat.Contenders, ", "), "quarkus (cold JVM), quarkus (warm)"; got != want {
		t.Errorf("the columns are %q, want %q", got, want)
	}
	if len(heat.Rows) != 1 {
		t.Errorf("there are %d rows, want the one that has a ratio: %+v", len(heat.Rows), heat.Rows)
	}
}

func TestARatioThatIsWrittenAs1IsNoWinAndNoLoss(t *testing.T) {
	for _, test := range []struct {
		low, high float64
		want      string
	}{{1.001, 1.004, "undecided"}, {0.996, 0.999, "undecided"}, {1.006, 1.02, "better"}, {0.98, 0.994, "worse"}, {0.9, 1.1, "undecided"}} {
		if got := (HeatCell{1, test.low, test.high, 8}).Class(); got != test.want {
			t.Errorf("%v to %v is %s, want %s", test.low, test.high, got, test.want)
		}
	}
}

func TestTheLargestLossesAreOfSeveralContendersIfSeveralAreBetter(t *testing.T) {
	var heat Heat
	heat.choose([]finding{
		{"a1", "a", 0.1}, {"a2", "a", 0.2}, {"a3", "a", 0.3}, {"b1", "b", 0.8}, {"b2", "b", 0.9}, {"won", "a", 3},
	})
	if got := strings.Join(heat.Losses, " "); got != "a1 b1 a2" {
		t.Errorf("the losses are %q", got)
	}
	if got := strings.Join(heat.Wins, " "); got != "won" {
		t.Errorf("the wins are %q", got)
	}
}
