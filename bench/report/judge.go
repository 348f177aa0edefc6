package report

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/bellerophon-io/bellerophon/bench/rundir"
)

const (
	// enough is the number of rounds that are not noisy that the median of a goal needs.
	enough = 5
	// warming is the number of reconciles after which a JVM is warm.
	warming = 5000
)

// judge gives every goal its value and its verdict.
func judge(run rundir.Run, rounds []rundir.Round) []Goal {
	var judged []Goal
	for _, goal := range goals {
		for _, target := range goal.targets {
			judged = append(judged, goal.judge(target, run, rounds))
		}
	}
	return judged
}

// judge gives the goal its value and its verdict beside one peer.
func (g goal) judge(target target, run rundir.Run, rounds []rundir.Round) Goal {
	result := Goal{Name: g.name, Peer: target.peer, Target: target.sign + " " + exact(target.bound)}
	is := g.measured(target, run, rounds)
	if !is.there {
		result.Measured, result.Verdict = whyNot(run, rounds, g, target), NotMeasured
		return result
	}
	result.Measured, result.Verdict = fmt.Sprintf("%s (%s)", exact(is.value), strings.Join(is.notes, ", ")), Missed
	if is.asDefined && target.holds(is.value) {
		result.Verdict = Met
	}
	return result
}

// holds reports whether a value reaches the target.
func (t target) holds(value float64) bool {
	switch t.sign {
	case "<=":
		return value <= t.bound
	case ">=":
		return value >= t.bound
	default:
		return value == t.bound
	}
}

// measurement is the value of a goal.
type measurement struct {
	value     float64
	notes     []string // the rounds, and how they differ from the goal's definition
	there     bool     // there is a value
	asDefined bool     // the rounds fit the definition: enough without noise, default settings, the goal's size
}

// measured returns the value of the rounds that fit the goal's definition best.
func (g goal) measured(target target, run rundir.Run, rounds []rundir.Round) measurement {
	counting := slices.DeleteFunc(slices.Clone(rounds), func(round rundir.Round) bool {
		return !round.Counts() || !g.suits(round.Variant) || !slices.Contains(g.scenarios, round.Scenario)
	})
	kinds := kindsOf(run, counting)
	slices.SortStableFunc(kinds, func(a, b kind) int {
		return cmp.Or(cmp.Compare(g.distance(a.variant), g.distance(b.variant)), byPlace(g.scenarios, a.scenario, b.scenario))
	})
	for _, kind := range kinds {
		is := g.compare(target, kind, ofKind(counting, kind))
		if !is.there {
			continue
		}
		where := kind.String()
		if g.n > 0 && variantValue(kind.variant, "n") != g.n {
			where += fmt.Sprintf(" instead of n=%.0f", g.n)
			is.asDefined = false
		}
		is.notes = append([]string{where}, is.notes...)
		return is
	}
	return measurement{}
}

// distance returns how far the size of a variant is from the size that the goal names.
func (g goal) distance(variant string) float64 {
	n := variantValue(variant, "n")
	if g.n == 0 {
		return -n
	}
	return max(g.n-n, n-g.n)
}

// compare returns the value of a goal in rounds of one kind.
func (g goal) compare(target target, of kind, rounds []rundir.Round) measurement {
	starts := g.measure == string(rundir.FirstWrite) // A process is cold when it starts.
	if target.by == level || target.by == ceiling {
		ours := g.sampleOf(Ours, rounds, !starts)
		switch {
		case len(ours.values) == 0:
			return measurement{}
		case target.by == ceiling:
			return measurement{slices.Max(ours.values), append(ours.notes, "largest value", ours.rounds()), true, ours.isAsDefined()}
		}
		return measurement{rundir.Median(ours.values), append(ours.notes, ours.rounds()), true, ours.isAsDefined()}
	}
	theirs := g.sampleOf(target.peer, rounds, !starts)
	ours := g.sampleOf(Ours, rounds, theirs.warm)
	if len(theirs.values) == 0 || len(ours.values) == 0 {
		return measurement{}
	}
	// A contender that starts among that many objects reconciles all of them, which warms it up.
	gotWarm := theirs.warm || (slices.Contains([]string{"return", "start"}, of.scenario) && variantValue(of.variant, "n") >= warming)
	isCold := target.peer == "quarkus" && !gotWarm && !starts
	if isCold {
		theirs.notes = append(theirs.notes, "the JVM was not warm")
	}
	is := measurement{
		notes: append(slices.Concat(ours.notes, theirs.notes), roundsOfBoth(ours, theirs)),
		there: true, asDefined: ours.isAsDefined() && theirs.isAsDefined() && !isCold,
	}
	over, under := rundir.Median(ours.values), rundir.Median(theirs.values)
	if target.by == rate {
		over, under = under, over
	}
	switch {
	case over == under:
		is.value = 1
	case under == 0:
		return measurement{} // A ratio to 0 has no meaning.
	default:
		is.value = over / under
	}
	return is
}

// sample is the values of a contender's rounds that a goal compares.
type sample struct {
	values []float64
	noisy  int // how many values are from noisy rounds
	warm   bool
	swept  bool // not with the default workers and memory
	notes  []string
}

// isAsDefined reports whether there are enough rounds with the contender's defaults.
func (s sample) isAsDefined() bool { return len(s.values)-s.noisy >= enough && !s.swept }

// rounds returns the number of rounds of a sample, as text.
func (s sample) rounds() string {
	text := fmt.Sprintf("%d rounds", len(s.values))
	switch {
	case len(s.values) == 1 && s.noisy == 1:
		return "only 1 noisy round"
	case len(s.values) == 1:
		return "only 1 round"
	case len(s.values) < enough:
		text = "only " + text
	}
	if s.noisy > 0 {
		text += fmt.Sprintf(" with %d noisy", s.noisy)
	}
	return text
}

// sampleOf returns the rounds of one setting. It prefers the default setting, then the requested
// warmth, then the setting with the most rounds.
func (g goal) sampleOf(contender string, rounds []rundir.Round, warm bool) sample {
	by := measureNamed(g.measure)
	type side struct {
		setting string
		warm    bool
	}
	values, noisy := map[side][]float64{}, map[side]int{}
	var sides []side
	for _, round := range rounds {
		value, is := by.of(round)
		if round.Contender != contender || !is {
			continue
		}
		of := side{round.Setting, round.Warm}
		if values[of] == nil {
			sides = append(sides, of)
		}
		values[of] = append(values[of], value)
		if round.Noisy != "" {
			noisy[of]++
		}
	}
	if len(sides) == 0 {
		return sample{}
	}
	points := func(of side) (points int) {
		if isDefault(of.setting) {
			points += 2
		}
		if of.warm == warm {
			points++
		}
		return points
	}
	best := slices.MaxFunc(sides, func(a, b side) int {
		return cmp.Or(cmp.Compare(points(a), points(b)), cmp.Compare(len(values[a]), len(values[b])))
	})
	taken := sample{values: values[best], noisy: noisy[best], warm: best.warm}
	if taken.swept = !isDefault(best.setting); taken.swept {
		taken.notes = []string{contender + " " + best.setting}
	}
	return taken
}

// isDefault reports whether a setting is the contender's default.
func isDefault(setting string) bool { return setting == "" || setting == "default" }

// roundsOfBoth returns the numbers of rounds of Bellerophon's median and the peer's, as text.
func roundsOfBoth(ours, theirs sample) string {
	if ours.rounds() == theirs.rounds() {
		return ours.rounds()
	}
	return ours.rounds() + " of ours and " + theirs.rounds() + " of the peer"
}

// whyNot returns why a goal has no value.
func whyNot(run rundir.Run, rounds []rundir.Round, g goal, target target) string {
	for _, contender := range []string{Ours, target.peer} {
		if reason, is := run.Skipped[contender]; is {
			return contender + " was skipped: " + reason
		}
		if contender == Ours || contender == target.peer && target.by != level && target.by != ceiling {
			if reason := g.lost(contender, rounds); reason != "" {
				return contender + " " + reason
			}
		}
	}
	return "no rounds with both values"
}

// lost returns why no round of a contender counts for a goal, or "" if one counts.
func (g goal) lost(contender string, rounds []rundir.Round) string {
	tookPart, why := false, ""
	for _, round := range rounds {
		if round.Contender != contender {
			continue
		}
		tookPart = true
		if !slices.Contains(g.scenarios, round.Scenario) || !g.suits(round.Variant) {
			continue
		}
		if round.Counts() {
			return ""
		}
		why = cmp.Or(why, "has no round that counts: "+cmp.Or(round.Failed, round.Rejected))
	}
	if !tookPart {
		return "did not take part"
	}
	return cmp.Or(why, "has no suitable round of "+strings.Join(g.scenarios, " or "))
}

// exact formats a number with up to four decimals.
func exact(value float64) string {
	text := strconv.FormatFloat(value, 'f', 4, 64)
	return strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
}

// variantValue returns a number of a variant such as "n=5000,load=50", or -1 if the variant does not
// have it.
func variantValue(variant, name string) float64 {
	for _, part := range strings.FieldsFunc(variant, func(c rune) bool { return strings.ContainsRune(", ;_", c) }) {
		if text, is := strings.CutPrefix(part, name+"="); is {
			if value, err := strconv.ParseFloat(strings.TrimSuffix(text, "%"), 64); err == nil {
				return value
			}
		}
	}
	return -1
}
