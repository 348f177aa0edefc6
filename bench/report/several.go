package report

import (
	"fmt"
	"maps"
	"slices"

	"github.com/bellerophon-io/bellerophon/bench/rundir"
)

// together is one or several runs as one. It has the scenarios and the rounds of all.
type together struct {
	run    rundir.Run
	rounds []rundir.Round
	older  []older
}

// older is a contender of a run that has another program, or other settings, in a newer one. Its rounds do not count.
type older struct {
	Dir, Contender string
	Rounds         int
}

// String returns what is left out, and why.
func (o older) String() string {
	return fmt.Sprintf("%s of %s (%d rounds): a newer run has another program or other settings of it", o.Contender, o.Dir, o.Rounds)
}

// readAll reads the folders of one or of several runs. No run is chosen for a goal: rounds of the same scenario and size
// count together, as further turns, and a goal that names no size takes the largest one. It is an error if Bellerophon had
// another program or other settings in one of the runs. Of a peer the newest program counts, in all runs that have it.
func readAll(dirs []string) (together, error) {
	runs := make([]oneRun, len(dirs))
	for i, dir := range dirs {
		run, rounds, err := read(dir)
		if err != nil {
			return together{}, err
		}
		runs[i] = oneRun{dir, run, rounds}
	}
	newest := map[string]oneRun{}
	for _, f := range runs {
		for contender := range f.run.Builds {
			before, known := newest[contender]
			if contender == Ours && known && !f.hasSame(contender, before) {
				return together{}, fmt.Errorf("combine the runs: %s has another program or other settings of %s than the folders before it; "+
					"give the folders of one version, or one at a time", f.dir, contender)
			}
			if f.count(contender) > 0 && (!known || f.run.Started.After(before.run.Started)) {
				newest[contender] = f
			}
		}
	}
	var all together
	for i, f := range runs {
		left := f.without(newest)
		all.older = append(all.older, left...)
		if i == 0 {
			all.run, all.rounds = f.run, f.counting(left)
			continue
		}
		all.run = joined(all.run, f.run)
		all.rounds = append(all.rounds, after(all.rounds, f.counting(left))...)
	}
	if len(runs) > 1 {
		for _, round := range all.rounds { // Left out of one run, a contender may have taken part in another.
			delete(all.run.Skipped, round.Contender)
		}
	}
	return all, nil
}

// oneRun is a run as it was read.
type oneRun struct {
	dir    string
	run    rundir.Run
	rounds []rundir.Round
}

// hasSame reports whether a contender has the same program and the same settings in another run.
func (f oneRun) hasSame(contender string, other oneRun) bool {
	return f.run.Builds[contender] == other.run.Builds[contender] && f.run.Settings[contender] == other.run.Settings[contender]
}

// count returns the number of rounds of a contender.
func (f oneRun) count(contender string) (count int) {
	for _, round := range f.rounds {
		if round.Contender == contender {
			count++
		}
	}
	return count
}

// without forgets the facts about contenders whose newest run has another program, and returns these contenders.
func (f oneRun) without(newest map[string]oneRun) (left []older) {
	for _, contender := range slices.Sorted(maps.Keys(f.run.Builds)) {
		if last, known := newest[contender]; known && !f.hasSame(contender, last) {
			left = append(left, older{f.dir, contender, f.count(contender)})
			for _, facts := range []map[string]string{f.run.Builds, f.run.Versions} {
				delete(facts, contender)
			}
			delete(f.run.Settings, contender)
		}
	}
	return left
}

// counting returns the rounds, without the rounds of contenders that are left out.
func (f oneRun) counting(left []older) []rundir.Round {
	return slices.DeleteFunc(slices.Clone(f.rounds), func(round rundir.Round) bool {
		return slices.ContainsFunc(left, func(o older) bool { return o.Contender == round.Contender })
	})
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
