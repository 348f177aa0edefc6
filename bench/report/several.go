package report

import (
	"fmt"
	"maps"
	"slices"

	"github.com/bellerophon-io/bellerophon/bench/rundir"
)

// readAll reads the folders of one or of several runs. Several runs become one, which has the scenarios and the
// rounds of all. So no run is chosen for a goal: rounds of the same scenario and size count together, as further
// turns, and a goal that names no size takes the largest one. It is an error if a contender had another program
// or other settings in one of the runs.
func readAll(dirs []string) (rundir.Run, []rundir.Round, error) {
	all, rounds, err := read(dirs[0])
	if err != nil {
		return all, nil, err
	}
	for _, dir := range dirs[1:] {
		run, more, err := read(dir)
		if err != nil {
			return all, nil, err
		}
		for contender, build := range run.Builds {
			before, known := all.Builds[contender]
			if known && (before != build || all.Settings[contender] != run.Settings[contender]) {
				return all, nil, fmt.Errorf("combine the runs: %s has another program or other settings of %s than the folders before it; "+
					"give the folders of one version, or one at a time", dir, contender)
			}
		}
		all = joined(all, run)
		rounds = append(rounds, after(rounds, more)...)
		for _, round := range rounds { // Left out of one run, a contender may have taken part in another.
			delete(all.Skipped, round.Contender)
		}
	}
	return all, rounds, nil
}

// joined returns a run with the contenders and scenarios of two. Facts of a contender that both have are from the first.
func joined(first, second rundir.Run) rundir.Run {
	first.Skipped = union(first.Skipped, second.Skipped)
	first.Builds = union(first.Builds, second.Builds)
	first.Versions = union(second.Versions, first.Versions) // The commit of a program that did not change may differ.
	first.Settings = union(first.Settings, second.Settings)
	first.Scenarios = slices.Concat(first.Scenarios, second.Scenarios)
	return first
}

func union[V any](first, second map[string]V) map[string]V {
	both := map[string]V{}
	maps.Copy(both, first)
	maps.Copy(both, second)
	return both
}

// after returns rounds whose turns follow the turns of other rounds.
func after(others, rounds []rundir.Round) []rundir.Round {
	next := 0
	for _, round := range others {
		next = max(next, round.Turn+1)
	}
	moved := make([]rundir.Round, len(rounds))
	for i, round := range rounds {
		round.Turn += next
		moved[i] = round
	}
	return moved
}
