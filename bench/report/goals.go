package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"

	"github.com/bellerophon-io/bellerophon/bench/rundir"
	"github.com/bellerophon-io/bellerophon/bench/scenario"
)

// Verdict is the state of a goal.
type Verdict string

// The verdicts. A goal is met if its whole 95 % interval reaches the target, and missed if no part of it
// does. It is open between these, and with too few turns. It is not measured without a value, or with a
// value of another size or setting than it names.
const (
	Met         Verdict = "met"
	Open        Verdict = "open"
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

// Verdicts returns how many goals have each verdict, as a line of text.
func (s Summary) Verdicts() string {
	counts := verdicts(s.Goals)
	return fmt.Sprintf("Goals of its scenarios: %d of %d met, %d open, %d missed, %d not measured.",
		counts[Met], len(s.Goals), counts[Open], counts[Missed], counts[NotMeasured])
}

// goal is a goal with the scenarios whose rounds it takes. The first one with rounds of both sides is
// used.
type goal struct {
	scenario.Goal
	scenarios []string
}

// goals returns the goals of the project, in the order of its table.
var goals = sync.OnceValue(func() []goal {
	var found []goal
	for _, of := range scenario.All() {
		for _, one := range of.Goals {
			found = append(found, goal{one, append([]string{of.Name}, one.Else...)})
		}
	}
	row := func(g goal) int {
		if g.Row == 0 {
			return math.MaxInt
		}
		return g.Row
	}
	slices.SortStableFunc(found, func(a, b goal) int { return cmp.Compare(row(a), row(b)) })
	return found
})

// goalsOf returns the goals of the scenarios that a run was asked for. So a new scenario with goals
// changes no report of an older run. A run that names no scenario has all goals.
func goalsOf(run rundir.Run) []goal {
	asked := map[string]bool{}
	for _, text := range run.Scenarios {
		name, _, _ := strings.Cut(text, " ")
		asked[name] = true
	}
	return slices.DeleteFunc(slices.Clone(goals()), func(g goal) bool {
		return len(asked) > 0 && !slices.ContainsFunc(g.scenarios, func(name string) bool { return asked[name] })
	})
}

// suits reports whether a goal is about a variant.
func (g goal) suits(variant string) bool {
	return g.Suits(variantValue(variant, "n"), variantValue(variant, "load"), variantValue(variant, "rtt"))
}
