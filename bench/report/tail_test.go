package report

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/bench/rundir"
	"pgregory.net/rapid"
)

// sampled creates one round with reactions per turn.
func sampled(contender string, byTurn ...[]time.Duration) []rundir.Round {
	var rounds []rundir.Round
	for turn, latencies := range byTurn {
		rounds = append(rounds, rundir.Round{Scenario: "steady", Variant: "n=300,load=50", Contender: contender, Setting: "default", Turn: turn,
			Measured: rundir.Measured{rundir.Objects: float64(len(latencies))}, Samples: rundir.Samples{rundir.Reaction99: rundir.HistogramOf(latencies)}})
	}
	return rounds
}

// evenly returns n latencies from 1/n of the longest to the longest.
func evenly(n int, longest time.Duration) []time.Duration {
	latencies := make([]time.Duration, n)
	for i := range latencies {
		latencies[i] = longest * time.Duration(i+1) / time.Duration(n)
	}
	return latencies
}

func repeated[T any](times int, value T) []T { return slices.Repeat([]T{value}, times) }

func blocksOf(rounds []rundir.Round) map[string]Block {
	blocks := map[string]Block{}
	for _, block := range Summarize(rundir.Run{}, rounds).Tables[0].Blocks {
		blocks[block.Name] = block
	}
	return blocks
}

func isNear(got, want float64) bool { return math.Abs(got-want) <= want/500 }

func TestAP99IsThatOfAllLatenciesTogetherAndNotTheMedianOfTheRounds(t *testing.T) {
	// One of four rounds is slow: its 300 latencies are a quarter of all, so the p99 is one of them.
	rounds := sampled(Ours, evenly(300, time.Second), evenly(300, time.Second), evenly(300, time.Second), evenly(300, 10*time.Second))
	blocks := blocksOf(rounds)
	p99, is := blocks["reaction_p99_seconds"]
	if !is || len(p99.Rows) != 1 || !isNear(p99.Rows[0].Measured.Median, 9.6) {
		t.Errorf("the block is %+v, want a p99 of 9.6 s", p99)
	}
	if _, is := blocks["reaction_p99_seconds_max"]; is {
		t.Error("there is a maximum beside a p99 of 1,200 latencies")
	}
}

func TestWithFewerThanAThousandLatenciesTheSlowestIsCalledTheMaximum(t *testing.T) {
	blocks := blocksOf(slices.Concat(
		sampled(Ours, evenly(500, time.Second), evenly(499, 3*time.Second)), sampled("kube-rs", evenly(500, 2*time.Second), evenly(500, 2*time.Second))))
	if rows := blocks["reaction_p99_seconds"].Rows; len(rows) != 1 || rows[0].Contender != "kube-rs" || rows[0].Verdict != "not measured" {
		t.Errorf("999 latencies have a p99: %+v", rows)
	}
	largest := blocks["reaction_p99_seconds_max"]
	if len(largest.Rows) != 2 || !isNear(largest.Rows[0].Measured.Median, 2) || !strings.Contains(largest.Title, "maximum") {
		t.Errorf("the block of the maximum is %+v, want both contenders", largest)
	}
}

func TestRoundsThatKeptNoLatenciesSayHowManyTheirPercentileIsOf(t *testing.T) {
	for objects, want := range map[float64]string{
		1000: "p99 of a round", 999: "99th percentile of a round with too few latencies", 100: "99th percentile of a round with too few latencies", 99: "maximum of a round", 0: "maximum of a round",
	} {
		rounds := with(func(round *rundir.Round) { round.Measured[rundir.Objects] = objects }, of("burst", "n=1", Ours, rundir.Reaction99, 1, 2, 3))
		var titles []string
		for _, block := range blocksOf(rounds) {
			if strings.HasPrefix(block.Name, "reaction") {
				titles = append(titles, block.Title)
			}
		}
		if len(titles) != 1 || !strings.Contains(titles[0], want) {
			t.Errorf("%v objects: the titles are %q, want one with %q", objects, titles, want)
		}
	}
	storm := with(func(round *rundir.Round) { round.Measured[rundir.Objects] = 5000 }, of("storm", "n=5000", Ours, rundir.Reaction99, 1))
	if _, is := blocksOf(storm)["reaction_p99_seconds_of_few"]; !is {
		t.Error("a storm has a known number of reactions")
	}
}

func TestAGoalAboutAP99IsNotMeasuredByFewLatencies(t *testing.T) {
	find := func(rounds []rundir.Round) Goal {
		for _, goal := range Summarize(rundir.Run{}, rounds).Goals {
			if goal.Name == "reaction-p99-half-load" && goal.Peer == "kube-rs" {
				return goal
			}
		}
		t.Fatal("there is no such goal")
		return Goal{}
	}
	many := slices.Concat(sampled(Ours, repeated(8, evenly(150, time.Second))...), sampled("kube-rs", repeated(8, evenly(150, 2*time.Second))...))
	if goal := find(many); goal.Verdict != Met || !strings.HasPrefix(goal.Measured, "0.5 (") {
		t.Errorf("1,200 latencies: %+v", goal)
	}
	few := slices.Concat(sampled(Ours, repeated(8, evenly(100, time.Second))...), sampled("kube-rs", repeated(8, evenly(100, 2*time.Second))...))
	if goal := find(few); goal.Verdict != NotMeasured || !strings.Contains(goal.Measured, "0.5 (") || !strings.Contains(goal.Measured, "maximum of a round") {
		t.Errorf("800 latencies: %+v", goal)
	}
}

func TestAPooledP99IsAsTheSortedLatenciesHaveIt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var rounds []rundir.Round
		var weights []int64
		var all []time.Duration
		for range rapid.IntRange(1, 4).Draw(t, "rounds") {
			latencies := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) time.Duration {
				return time.Duration(rapid.IntRange(1, 1_000_000).Draw(t, "µs")) * time.Microsecond
			}), 1, 200).Draw(t, "latencies")
			weight := rapid.IntRange(0, 3).Draw(t, "weight")
			rounds = append(rounds, sampled(Ours, latencies)...)
			weights = append(weights, int64(weight))
			for range weight {
				all = append(all, latencies...)
			}
		}
		got := poolOf(rundir.Reaction99, rounds).p99(weights)
		if len(all) == 0 {
			if got != 0 {
				t.Fatalf("the p99 of nothing is %v", got)
			}
			return
		}
		slices.Sort(all)
		want := all[int(math.Ceil(0.99*float64(len(all))))-1].Seconds()
		if math.Abs(got-want) > want/1000+1e-6 {
			t.Fatalf("got %v of %d latencies, want %v", got, len(all), want)
		}
	})
}

func TestTheIntervalOfARatioOfP99sIsWideIfOneRoundDecidesIt(t *testing.T) {
	by := measureNamed("reaction_p99_seconds")
	turnsOf := func(rounds []rundir.Round) turns { return turnsOf(by, rounds, column{rounds[0].Contender, false}) }
	steady := turnsOf(sampled("kube-rs", repeated(8, evenly(200, time.Second))...))
	uneven := turnsOf(sampled(Ours, append(repeated(7, evenly(200, time.Second)), evenly(200, 20*time.Second))...))
	is, has := by.ratio(uneven, steady)
	if !has || is.low > 1.01 || is.high < 15 || is.turns != 8 {
		t.Errorf("got %+v", is)
	}
	if is, has := by.ratio(steady, steady); !has || is.low != 1 || is.high != 1 {
		t.Errorf("the ratio to itself is %+v", is)
	}
}
