package report

import (
	"strings"
	"testing"

	"github.com/bellerophon-io/bellerophon/bench/rundir"
)

// of creates one round with one measure per value.
func of(scenario, variant, contender string, measure rundir.Measure, values ...float64) []rundir.Round {
	var rounds []rundir.Round
	for turn, value := range values {
		rounds = append(rounds, rundir.Round{Scenario: scenario, Variant: variant, Contender: contender, Setting: "default", Turn: turn,
			Measured: map[rundir.Measure]float64{measure: value}})
	}
	return rounds
}

func with(change func(*rundir.Round), rounds []rundir.Round) []rundir.Round {
	for i := range rounds {
		change(&rounds[i])
	}
	return rounds
}

func TestGoalsAreMeasuredAsTheTableSays(t *testing.T) {
	warm := func(round *rundir.Round) { round.Warm = true }
	rejected := func(round *rundir.Round) { round.Rejected = rundir.MachineMoved + "9 s" }
	lost := func(round *rundir.Round) { round.Rejected = "no cluster" }
	failed := func(round *rundir.Round) { round.Failed = "it ended" }
	swept := func(round *rundir.Round) { round.Setting = "workers=8" }
	objects := func(round *rundir.Round) { round.Measured[rundir.Objects] = 100 }
	many := func(round *rundir.Round) { round.Measured[rundir.Objects] = 1000 }
	for name, test := range map[string]struct {
		goal, peer string
		rounds     [][]rundir.Round
		want       string // value, target and verdict
	}{
		"on the target": {"peak-memory", "controller-runtime", [][]rundir.Round{
			of("start", "n=50000", Ours, rundir.PeakMemory, 50, 45, 50, 25, 50, 50), of("start", "n=50000", "controller-runtime", rundir.PeakMemory, 100, 90, 100, 50, 100, 100),
		}, "0.5 (start n=50000, 6 turns)\t<= 0.5\tmet"},
		"an interval on both sides of the target": {"peak-memory", "controller-runtime", [][]rundir.Round{
			of("start", "n=50000", Ours, rundir.PeakMemory, 40, 41, 42, 43, 44, 55), of("start", "n=50000", "controller-runtime", rundir.PeakMemory, 100, 100, 100, 100, 100, 100),
		}, "0.425 (0.405 to 0.495, start n=50000, 6 turns)\t<= 0.5\tmet"},
		"an interval that is wide": {"peak-memory", "controller-runtime", [][]rundir.Round{
			of("start", "n=50000", Ours, rundir.PeakMemory, 40, 40, 40, 60, 60, 60), of("start", "n=50000", "controller-runtime", rundir.PeakMemory, 100, 100, 100, 100, 100, 100),
		}, "0.5 (0.4 to 0.6, start n=50000, 6 turns)\t<= 0.5\topen"},
		"an interval beyond the target": {"peak-memory", "controller-runtime", [][]rundir.Round{
			of("start", "n=50000", Ours, rundir.PeakMemory, 51, 52, 53, 54, 55, 56), of("start", "n=50000", "controller-runtime", rundir.PeakMemory, 100, 100, 100, 100, 100, 100),
		}, "0.535 (0.515 to 0.555, start n=50000, 6 turns)\t<= 0.5\tmissed"},
		"too few turns": {"peak-memory", "controller-runtime", [][]rundir.Round{
			of("start", "n=50000", Ours, rundir.PeakMemory, 51), of("start", "n=50000", "controller-runtime", rundir.PeakMemory, 100),
		}, "0.51 (start n=50000, only 1 turn)\t<= 0.5\topen"},
		"ratios within turns, as the machine gets slower": {"exec-to-first-write", "kube-rs", [][]rundir.Round{
			of("start", "n=50000", Ours, rundir.FirstWrite, 1, 2, 3, 4, 5, 6), of("start", "n=50000", "kube-rs", rundir.FirstWrite, 2, 4, 6, 8, 10, 12, 14),
		}, "0.5 (start n=50000, 6 turns)\t<= 1\tmet"},
		"fewer objects than the goal names, and the scenario it is about": {"peak-memory", "kube-rs", [][]rundir.Round{
			of("start", "n=500", Ours, rundir.PeakMemory, 1), of("start", "n=500", "kube-rs", rundir.PeakMemory, 1),
			of("start", "n=5000", Ours, rundir.PeakMemory, 3), of("start", "n=5000", "kube-rs", rundir.PeakMemory, 4),
			of("burst", "n=5000", Ours, rundir.PeakMemory, 9), of("burst", "n=5000", "kube-rs", rundir.PeakMemory, 1),
			of("start", "n=50000", Ours, rundir.PeakMemory, 1),
		}, "0.75 (start n=5000 instead of n=50000, only 1 turn)\t<= 1\tnot measured"},
		"rounds whose ideal client was slow": {"exec-to-first-write", "kube-rs", [][]rundir.Round{
			with(rejected, of("start", "n=50000", Ours, rundir.FirstWrite, 9, 9, 9, 9, 9, 9)), of("start", "n=50000", "kube-rs", rundir.FirstWrite, 18, 18, 18, 18, 18, 18),
		}, "0.5 (start n=50000, 6 turns)\t<= 1\tmet"},
		"rounds that the harness lost": {"exec-to-first-write", "kube-rs", [][]rundir.Round{
			with(lost, of("start", "n=50000", Ours, rundir.FirstWrite, 9)), of("start", "n=50000", "kube-rs", rundir.FirstWrite, 18),
		}, "bellerophon has no complete round: no cluster\t<= 1\tnot measured"},
		"other than the defaults alone": {"exec-to-first-write", "kube-rs", [][]rundir.Round{
			with(swept, of("start", "n=50000", Ours, rundir.FirstWrite, 1, 1, 1, 1, 1, 1)), of("start", "n=50000", "kube-rs", rundir.FirstWrite, 2, 2, 2, 2, 2, 2),
		}, "0.5 (start n=50000, bellerophon workers=8, 6 turns)\t<= 1\tnot measured"},
		"a peer that failed": {"exec-to-first-write", "kube-rs", [][]rundir.Round{
			of("start", "n=50000", Ours, rundir.FirstWrite, 1), with(failed, of("start", "n=50000", "kube-rs", rundir.FirstWrite, 2)),
		}, "kube-rs has no complete round: it ended\t<= 1\tnot measured"},
		"a peer that was skipped": {"exec-to-first-write", "quarkus", [][]rundir.Round{
			of("start", "n=50000", Ours, rundir.FirstWrite, 1),
		}, "quarkus was skipped: no Java\t<= 0.2\tnot measured"},
		"a warm JVM": {"contender-cpu-per-1000", "quarkus", [][]rundir.Round{
			with(objects, of("burst", "n=100", Ours, rundir.ContenderCPU, 1, 1, 1, 1, 1, 1)), with(objects, of("burst", "n=100", "quarkus", rundir.ContenderCPU, 100)),
			with(objects, with(warm, of("burst", "n=100", "quarkus", rundir.ContenderCPU, 4, 4, 4, 4, 4, 4))),
		}, "0.25 (burst n=100, 6 turns)\t<= 0.3\tmet"},
		"a cold JVM": {"contender-cpu-per-1000", "quarkus", [][]rundir.Round{
			with(objects, of("burst", "n=100", Ours, rundir.ContenderCPU, 1, 1, 1, 1, 1, 1)), with(objects, of("burst", "n=100", "quarkus", rundir.ContenderCPU, 4, 4, 4, 4, 4, 4)),
		}, "0.25 (burst n=100, the JVM was not warm, 6 turns)\t<= 0.3\tnot measured"},
		"a JVM that has got warm meanwhile": {"peak-memory", "quarkus", [][]rundir.Round{
			of("return", "n=50000,m=100", Ours, rundir.PeakMemory, 1, 1, 1, 1, 1, 1), of("return", "n=50000,m=100", "quarkus", rundir.PeakMemory, 4, 4, 4, 4, 4, 4),
		}, "0.25 (return n=50000,m=100, 6 turns)\t<= 0.25\tmet"},
		"a start, which is never warm": {"exec-to-first-write", "quarkus", [][]rundir.Round{
			of("start", "n=50000", Ours, rundir.FirstWrite, 1, 1, 1, 1, 1, 1), of("start", "n=50000", "quarkus", rundir.FirstWrite, 5, 5, 5, 5, 5, 5),
		}, "0.2 (start n=50000, 6 turns)\t<= 0.2\tmet"},
		"another setting than the default": {"contender-cpu-per-1000", "kube-rs", [][]rundir.Round{
			with(objects, of("burst", "n=100", Ours, rundir.ContenderCPU, 3)),
			with(objects, with(swept, of("burst", "n=100", "kube-rs", rundir.ContenderCPU, 4))),
		}, "0.75 (burst n=100, kube-rs workers=8, only 1 turn)\t<= 1.2\tnot measured"},
		"the largest number of objects where none is named": {"server-cpu-per-object", "ideal", [][]rundir.Round{
			with(objects, of("burst", "n=100", Ours, rundir.ServerCPU, 1)), with(objects, of("burst", "n=100", "ideal", rundir.ServerCPU, 1)),
			with(objects, of("burst", "n=5000", Ours, rundir.ServerCPU, 12)), with(objects, of("burst", "n=5000", "ideal", rundir.ServerCPU, 10)),
		}, "1.2 (burst n=5000, only 1 turn)\t<= 1.1\topen"},
		"the floor of writes": {"writes-per-object", "floor", [][]rundir.Round{with(objects, of("burst", "n=2000", Ours, rundir.Writes, 400, 400, 400, 400, 400, 400))},
			"4 (burst n=2000, 6 turns)\t= 4\tmet"},
		"a floor that is for objects without servers": {"writes-per-object", "floor", [][]rundir.Round{with(objects, of("burst", "n=1000", Ours, rundir.Writes, 500, 500, 500, 500, 500, 500))},
			"bellerophon has no suitable round of burst\t= 4\tnot measured"},
		"rounds that cannot be compared": {"exec-to-first-write", "kube-rs", [][]rundir.Round{
			of("start", "n=50000", Ours, rundir.FirstWrite, 1), of("return", "n=50000,m=100", "kube-rs", rundir.FirstWrite, 2),
		}, "no turn with both values\t<= 1\tnot measured"},
		"one write above the floor": {"writes-per-object", "floor", [][]rundir.Round{with(objects, of("burst", "n=2000", Ours, rundir.Writes, 401, 401, 401, 401, 401, 401))},
			"4.01 (burst n=2000, 6 turns)\t= 4\tmissed"},
		"writes around the floor": {"writes-per-object", "floor", [][]rundir.Round{with(objects, of("burst", "n=2000", Ours, rundir.Writes, 399, 399, 399, 401, 401, 401))},
			"4 (3.99 to 4.01, burst n=2000, 6 turns)\t= 4\topen"},
		"half load": {"reaction-p99-half-load", "kube-rs", [][]rundir.Round{
			of("steady", "load=20", Ours, rundir.Reaction99, 1), of("steady", "load=20", "kube-rs", rundir.Reaction99, 2),
			with(many, of("steady", "load=50", Ours, rundir.Reaction99, 3)), with(many, of("steady", "load=50", "kube-rs", rundir.Reaction99, 2)),
		}, "1.5 (steady load=50, only 1 turn)\t<= 1\topen"},
		"no low load": {"create-to-ready-p50-low-load", "kube-rs", [][]rundir.Round{
			of("steady", "load=50", Ours, rundir.ReadyMedian, 1), of("steady", "load=50", "kube-rs", rundir.ReadyMedian, 2),
		}, "bellerophon has no suitable round of steady\t<= 1\tnot measured"},
		"the rate of the ideal client": {"converge-rate", "ideal", [][]rundir.Round{
			of("burst", "n=5000", Ours, rundir.Converge, 10, 20, 10, 10, 10, 10), of("burst", "n=5000", "ideal", rundir.Converge, 8.5, 17, 8.5, 8.5, 8.5, 8.5),
		}, "0.85 (burst n=5000, 6 turns)\t>= 0.85\tmet"},
		"rounds with a network alone": {"exec-to-first-write", "kube-rs", [][]rundir.Round{
			of("start", "n=50000,rtt=10", Ours, rundir.FirstWrite, 1), of("start", "n=50000,rtt=10", "kube-rs", rundir.FirstWrite, 2),
		}, "bellerophon has no suitable round of return or start\t<= 1\tnot measured"},
		"a network that the goal is about": {"converge-over-10-ms", "kube-rs-equal", [][]rundir.Round{
			of("burst", "n=100", Ours, rundir.Converge, 9, 9, 9, 9, 9, 9), of("burst", "n=100", "kube-rs-equal", rundir.Converge, 1, 1, 1, 1, 1, 1),
			of("burst", "n=100,rtt=10", Ours, rundir.Converge, 1, 1, 1, 1, 1, 1), of("burst", "n=100,rtt=10", "kube-rs-equal", rundir.Converge, 2, 2, 2, 2, 2, 2),
		}, "0.5 (burst n=100,rtt=10, 6 turns)\t<= 1\tmet"},
		"one read of one round": {"reads-while-idle", "none", [][]rundir.Round{of("idle", "n=500", Ours, rundir.Reads, 0, 0, 1, 0, 0, 0)},
			"1 (idle n=500, largest value, 6 turns)\t= 0\tmissed"},
		"one read in few turns": {"reads-while-idle", "none", [][]rundir.Round{of("idle", "n=500", Ours, rundir.Reads, 0, 1)},
			"1 (idle n=500, largest value, only 2 turns)\t= 0\tmissed"},
		"no writes after a restart": {"writes-after-restart", "none", [][]rundir.Round{of("restart", "n=500", Ours, rundir.Writes, 0, 0, 0, 0, 0, 0)},
			"0 (restart n=500, largest value, 6 turns)\t= 0\tmet"},
	} {
		t.Run(name, func(t *testing.T) {
			var rounds []rundir.Round
			for _, some := range test.rounds {
				rounds = append(rounds, some...)
			}
			run := rundir.Run{Skipped: map[string]string{}}
			if strings.Contains(test.want, "was skipped") {
				run.Skipped[test.peer] = "no Java"
			}
			for _, goal := range Summarize(run, rounds).Goals {
				if goal.Name != test.goal || goal.Peer != test.peer {
					continue
				}
				if got, want := goal.Line(), "goal\t"+test.goal+"\t"+test.peer+"\t"+test.want; got != want {
					t.Errorf("got\n%s\nwant\n%s", got, want)
				}
				return
			}
			t.Errorf("there is no goal %s beside %s", test.goal, test.peer)
		})
	}
}

func TestAGoalWithoutAnyRoundIsNotMeasured(t *testing.T) {
	found := Summarize(rundir.Run{}, nil).Goals
	if len(found) < 27 {
		t.Errorf("there are %d goals, not 27 or more", len(found))
	}
	for _, goal := range found {
		if goal.Verdict != NotMeasured || goal.Measured != "bellerophon did not take part" || strings.Count(goal.Line(), "\t") != 5 {
			t.Errorf("got %q", goal.Line())
		}
	}
}

func TestARunHasTheGoalsOfItsScenariosAlone(t *testing.T) {
	for _, goal := range Summarize(rundir.Run{Scenarios: []string{"idle n=20,seconds=5", "start n=100"}}, nil).Goals {
		switch goal.Name {
		case "writes-while-idle", "reads-while-idle", "settled-memory-while-idle", "peak-memory", "exec-to-first-write":
		default:
			t.Errorf("a run of idle and start has the goal %s", goal.Name)
		}
	}
}

func TestNumbersAreFoundInVariants(t *testing.T) {
	for _, test := range []struct {
		variant, name string
		want          float64
	}{
		{"n=5000", "n", 5000}, {"n=5000,load=50", "load", 50}, {"load=50%", "load", 50}, {"n=5000 load=12.5", "load", 12.5}, {"children=3", "n", -1}, {"", "n", -1}, {"n=many", "n", -1},
	} {
		if got := variantValue(test.variant, test.name); got != test.want {
			t.Errorf("%s of %q is %v, not %v", test.name, test.variant, got, test.want)
		}
	}
}
