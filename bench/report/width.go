package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/bellerophon-io/bellerophon/bench/rundir"
)

// IsCompared reports whether contenders are compared by a measure of this name, so that a run may end by it.
func IsCompared(name string) bool {
	return slices.ContainsFunc(measures, func(m measure) bool { return m.name == name && !m.isFact })
}

// Width returns the width of the widest 95 % interval of all ratios to Bellerophon, as a share of its ratio. It
// also returns the smallest number of turns of a ratio, and false without a ratio. The rounds are of one
// scenario in one variant. The ideal client, and settings other than the defaults, are
// left out as in the heat map.
func Width(name string, rounds []rundir.Round) (widest float64, turns int, has bool) {
	by := measureNamed(name)
	complete := compared(rounds)
	for _, column := range columnsOf(complete) {
		is, compares := by.ratio(turnsOf(by, complete, column), turnsOf(by, complete, column.ours()))
		if !compares {
			continue
		}
		if widest = max(widest, (is.high-is.low)/is.median); !has || is.turns < turns {
			turns = is.turns
		}
		has = true
	}
	return widest, turns, has
}

// howScenariosEnded returns the rule of a run, and how wide the intervals of each scenario are. It returns ""
// for a run whose number of turns was fixed.
func howScenariosEnded(run rundir.Run, rounds []rundir.Round) string {
	if run.Until == (rundir.Until{}) || !IsCompared(run.Until.Measure) {
		return ""
	}
	by := measureNamed(run.Until.Measure)
	said := []string{}
	for _, kind := range kindsOf(run, rounds) {
		if width, turns, has := Width(by.name, ofKind(rounds, kind)); has {
			said = append(said, fmt.Sprintf("%s: %s of the ratio, after %d turns", kind, exact(width), turns))
		} else {
			said = append(said, fmt.Sprintf("%s: no ratio", kind))
		}
	}
	return fmt.Sprintf("The run has a rule that was written before its first round. A scenario gets no further turn after %d turns or more if each 95 %% interval of %s is at most "+
		"%s of its ratio wide, and it gets %d turns at most. The widest intervals are: %s.", run.Until.Minimum, by.title, exact(run.Until.Width), run.Turns, strings.Join(said, "; "))
}
