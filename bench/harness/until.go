package harness

import (
	"github.com/bellerophon-io/bellerophon/bench/report"
	"github.com/bellerophon-io/bellerophon/bench/rundir"
)

// fewestTurns is how many turns a scenario has before its intervals are looked at. With fewer, a median
// has intervals that are narrow by chance.
const fewestTurns = 8

// isNarrow reports whether a group needs no turn of the given number, because its intervals are narrow
// enough. Earlier turns alone decide, so that a run that resumes decides the same.
func (r *run) isNarrow(g group, turn int) (bool, error) {
	if r.until == (rundir.Until{}) || turn < r.until.Minimum {
		return false, nil
	}
	rounds, err := rundir.ReadRounds(r.Dir)
	if err != nil {
		return false, err
	}
	var before []rundir.Round
	for _, round := range rounds {
		if round.Scenario == g.scenario.Name && round.Variant == g.scenario.String() && round.Turn < turn {
			before = append(before, round)
		}
	}
	width, turns, has := report.Width(r.until.Measure, before)
	return has && turns >= r.until.Minimum && width <= r.until.Width, nil
}
