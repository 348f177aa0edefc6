package report

import (
	"fmt"
	"strings"

	"github.com/bellerophon-io/bellerophon/bench/rundir"
)

// Verdict is the state of a goal.
type Verdict string

// The verdicts. A value with too few rounds, or with fewer objects than the goal names, is missed.
// Only a goal without any value is not measured.
const (
	Met         Verdict = "met"
	Missed      Verdict = "missed"
	NotMeasured Verdict = "not measured"
)

// Class returns the verdict as a CSS class.
func (v Verdict) Class() string { return strings.ReplaceAll(string(v), " ", "-") }

// Goal is a goal of the project with the value that a run measured.
type Goal struct {
	Name     string  `json:"name"`
	Peer     string  `json:"peer"`     // a contender; floor and none name goals without a peer
	Measured string  `json:"measured"` // the value, its rounds and its differences from the goal's definition; or why there is none
	Target   string  `json:"target"`
	Verdict  Verdict `json:"verdict"`
}

// Line returns the goal as one line with tabs between its fields.
func (g Goal) Line() string {
	return strings.Join([]string{"goal", g.Name, g.Peer, g.Measured, g.Target, string(g.Verdict)}, "\t")
}

// verdicts counts the goals of each verdict.
func verdicts(goals []Goal) map[Verdict]int {
	counts := map[Verdict]int{}
	for _, goal := range goals {
		counts[goal.Verdict]++
	}
	return counts
}

// Verdicts returns how many goals are met, missed and not measured, as a sentence.
func (s Summary) Verdicts() string {
	counts := verdicts(s.Goals)
	return fmt.Sprintf("%d of %d goals are met, %d are missed, %d are not measured.", counts[Met], len(s.Goals), counts[Missed], counts[NotMeasured])
}

// way is how a goal is measured.
type way int

const (
	ratio   way = iota // our median divided by the peer's
	rate               // the peer's median divided by ours: for times, the ratio of the rates
	level              // our median
	ceiling            // the largest value of our rounds: a count that must be 0 must be 0 in every round
)

// goal is a row of the table of goals.
type goal struct {
	name      string
	measure   string
	scenarios []string // the first scenario with rounds of both sides is used
	suits     func(variant string) bool
	n         float64 // objects that the goal names; 0 uses the largest number
	targets   []target
}

type target struct {
	peer  string
	by    way
	sign  string // <=, >= or =
	bound float64
}

func atMost(peer string, bound float64) target { return target{peer, ratio, "<=", bound} }

func anyVariant(string) bool       { return true }
func halfLoad(variant string) bool { return variantValue(variant, "load") == 50 }
func lowLoad(variant string) bool {
	load := variantValue(variant, "load")
	return load > 0 && load < 50
}

// goals are the goals of the project, in the order of its table.
var goals = []goal{
	{"peak-memory", string(rundir.PeakMemory), []string{"return", "start", "burst"}, anyVariant, 50000, []target{
		atMost("controller-runtime", 0.5), atMost("controller-runtime-tuned", 0.7), atMost("quarkus", 0.25), atMost("kube-rs", 1),
	}},
	{"contender-cpu-per-1000", "contender_cpu_seconds_per_1000", []string{"burst"}, anyVariant, 0, []target{
		atMost("controller-runtime", 0.5), atMost("quarkus", 0.3), atMost("kube-rs", 1.2),
	}},
	{"server-cpu-per-object", "server_cpu_seconds_per_object", []string{"burst"}, anyVariant, 0, []target{
		atMost("controller-runtime", 0.7), atMost("quarkus", 0.7), atMost("kube-rs", 0.8), atMost("ideal", 1.1),
	}},
	{"writes-per-object", "writes_per_object", []string{"burst"}, anyVariant, 0, []target{
		{"floor", level, "=", 4}, {"ideal", ratio, "=", 1},
	}},
	{"reaction-p99-half-load", string(rundir.Reaction99), []string{"steady"}, halfLoad, 0, []target{
		atMost("controller-runtime", 0.5), atMost("quarkus", 0.3), atMost("kube-rs", 1),
	}},
	{"create-to-ready-p50-low-load", string(rundir.ReadyMedian), []string{"steady"}, lowLoad, 0, []target{
		atMost("controller-runtime", 0.8), atMost("quarkus", 0.6), atMost("kube-rs", 1),
	}},
	{"exec-to-first-write", string(rundir.FirstWrite), []string{"return", "start"}, anyVariant, 50000, []target{
		atMost("controller-runtime", 0.5), atMost("quarkus", 0.2), atMost("kube-rs", 1),
	}},
	{"converge-rate", string(rundir.Converge), []string{"burst"}, anyVariant, 5000, []target{{"ideal", rate, ">=", 0.85}}},
	{"writes-while-idle", string(rundir.Writes), []string{"idle"}, anyVariant, 0, []target{{"none", ceiling, "=", 0}}},
	{"reads-while-idle", string(rundir.Reads), []string{"idle"}, anyVariant, 0, []target{{"none", ceiling, "=", 0}}},
	{"writes-after-restart", string(rundir.Writes), []string{"restart"}, anyVariant, 0, []target{{"none", ceiling, "=", 0}}},
	{"reads-after-restart", string(rundir.Reads), []string{"restart"}, anyVariant, 0, []target{{"none", ceiling, "=", 0}}},
}
