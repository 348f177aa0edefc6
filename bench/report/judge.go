package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/bellerophon-io/bellerophon/bench/contender"
	"github.com/bellerophon-io/bellerophon/bench/rundir"
	"github.com/bellerophon-io/bellerophon/bench/scenario"
)

// warming is the number of reconciles after which a JVM is warm.
const warming = 5000

// judge gives each goal of a run its value and its verdict.
func judge(run rundir.Run, rounds []rundir.Round) []Goal {
	var judged []Goal
	for _, goal := range goalsOf(run) {
		for _, target := range goal.Targets {
			judged = append(judged, goal.judge(target, run, rounds))
		}
	}
	return judged
}

// judge gives the goal its value and its verdict beside one peer.
func (g goal) judge(target scenario.Target, run rundir.Run, rounds []rundir.Round) Goal {
	result := Goal{Name: g.Name, Peer: target.Peer, Target: target.Sign + " " + exact(target.Bound)}
	is := g.measured(target, run, rounds)
	if !is.there {
		result.Measured, result.Verdict = whyNot(run, rounds, g, target), NotMeasured
		return result
	}
	result.Measured = fmt.Sprintf("%s (%s)", exact(is.median), strings.Join(is.notes, ", "))
	result.Verdict = is.verdict(target)
	return result
}

// verdict compares the whole interval with a target.
func (m measurement) verdict(target scenario.Target) Verdict {
	low, high := holds(target, m.low), holds(target, m.high)
	switch {
	case !m.asDefined:
		return NotMeasured
	case m.turns < enough && (high || target.By != scenario.Ceiling): // One value above a ceiling is a proof.
		return Open
	case low && high:
		return Met
	case low || high || target.Sign == "=" && m.low < target.Bound && target.Bound < m.high:
		return Open
	default:
		return Missed
	}
}

// holds reports whether a value reaches the target.
func holds(t scenario.Target, value float64) bool {
	switch t.Sign {
	case "<=":
		return value <= t.Bound
	case ">=":
		return value >= t.Bound
	default:
		return value == t.Bound
	}
}

// measurement is the value of a goal.
type measurement struct {
	interval
	notes     []string // the interval, the rounds, and how they differ from the goal's definition
	there     bool     // there is a value
	asDefined bool     // the rounds fit the definition: default settings, the goal's size, a warm JVM
}

// measured returns the value of the rounds that fit the goal's definition best.
func (g goal) measured(target scenario.Target, run rundir.Run, rounds []rundir.Round) measurement {
	counting := slices.DeleteFunc(slices.Clone(rounds), func(round rundir.Round) bool {
		return !round.IsComplete() || !g.suits(round.Variant) || !slices.Contains(g.scenarios, round.Scenario)
	})
	kinds := kindsOf(run, counting)
	slices.SortStableFunc(kinds, func(a, b kind) int {
		return cmp.Or(cmp.Compare(g.distance(a.variant), g.distance(b.variant)), byPlace(g.scenarios, a.scenario, b.scenario))
	})
	for _, kind := range kinds {
		is := g.compareTails(target, kind, ofKind(counting, kind))
		if !is.there {
			continue
		}
		where := kind.String()
		if g.N > 0 && variantValue(kind.variant, "n") != g.N {
			where += fmt.Sprintf(" instead of n=%.0f", g.N)
			is.asDefined = false
		}
		is.notes = slices.Concat(is.spread(), []string{where}, is.notes)
		return is
	}
	return measurement{}
}

// distance returns how far the size of a variant is from the size that the goal names.
func (g goal) distance(variant string) float64 {
	n := variantValue(variant, "n")
	if g.N == 0 {
		return -n
	}
	return max(g.N-n, n-g.N)
}

// compareTails returns the value of a goal in rounds of one kind. If the goal is about a p99, the rounds may
// have too few latencies for one. It then returns the value that stands in, which is not as defined.
func (g goal) compareTails(target scenario.Target, of kind, rounds []rundir.Round) measurement {
	by := measureNamed(g.Measure)
	if by.pooled == "" {
		return g.compare(by, target, of, rounds)
	}
	for _, tail := range tailsOf(by.name) {
		by := measureNamed(tail.name)
		if is := g.compare(by, target, of, rounds); is.there {
			if !tail.isEnough {
				is.notes, is.asDefined = append(is.notes, by.title), false
			}
			return is
		}
	}
	return measurement{}
}

// compare returns the value of a measure in rounds of one kind.
func (g goal) compare(by measure, target scenario.Target, of kind, rounds []rundir.Round) measurement {
	starts := g.Measure == string(rundir.FirstWrite) // A process is cold when it starts.
	if target.By == scenario.Level || target.By == scenario.Ceiling {
		ours := g.sampleOf(by, Ours, rounds, !starts)
		switch {
		case len(ours.turns) == 0:
			return measurement{}
		case target.By == scenario.Ceiling:
			largest := largestOf(ours.all(by))
			return measurement{largest, append(ours.notes, "largest value", largest.count()), true, !ours.swept}
		}
		median := intervalOf(ours.all(by))
		return measurement{median, append(ours.notes, median.count()), true, !ours.swept}
	}
	theirs := g.sampleOf(by, target.Peer, rounds, !starts)
	ours := g.sampleOf(by, Ours, rounds, theirs.warm)
	over, under := ours, theirs
	if target.By == scenario.Rate {
		over, under = theirs, ours
	}
	is, there := by.ratio(over.turns, under.turns)
	if !there {
		return measurement{}
	}
	// A contender that starts among that many objects reconciles all of them, which warms it up.
	gotWarm := theirs.warm || (scenario.Named(of.scenario).Starts && variantValue(of.variant, "n") >= warming)
	isCold := contender.Facts(target.Peer).JVM && !gotWarm && !starts
	if isCold {
		theirs.notes = append(theirs.notes, "the JVM was not warm")
	}
	return measurement{is, append(slices.Concat(ours.notes, theirs.notes), is.count()), true, !ours.swept && !theirs.swept && !isCold}
}

// ratiosOf returns the quotients of two contenders' values by turn, within the turns that both have. Turns with a 0 on
// one side alone have none.
func ratiosOf(over, under map[int]float64) (ratios []float64) {
	for _, turn := range slices.Sorted(maps.Keys(over)) {
		above := over[turn]
		switch below, both := under[turn]; {
		case !both:
		case above == below:
			ratios = append(ratios, 1)
		case above != 0 && below != 0:
			ratios = append(ratios, above/below)
		}
	}
	return ratios
}

// sample is the values of a contender's rounds that a goal compares.
type sample struct {
	turns turns
	warm  bool
	swept bool // not with the default workers and memory
	notes []string
}

// all returns the values in the order of their turns.
func (s sample) all(by measure) (values []float64) {
	of := by.values(s.turns)
	for _, turn := range slices.Sorted(maps.Keys(of)) {
		values = append(values, of[turn])
	}
	return values
}

// count returns the number of turns, as text.
func (i interval) count() string {
	switch {
	case i.turns == 1:
		return "only 1 turn"
	case i.turns < enough:
		return fmt.Sprintf("only %d turns", i.turns)
	}
	return fmt.Sprintf("%d turns", i.turns)
}

// spread returns the interval as text, if it is not a point.
func (i interval) spread() []string {
	low, high := exact(i.low), exact(i.high)
	if low == high {
		return nil
	}
	return []string{low + " to " + high}
}

// sampleOf returns the rounds of one setting. It prefers the default setting, then the requested
// warmth, then the setting with the most rounds.
func (g goal) sampleOf(by measure, contender string, rounds []rundir.Round, warm bool) sample {
	type side struct {
		setting string
		warm    bool
	}
	found := map[side]turns{}
	var sides []side
	for _, round := range rounds {
		if _, has := by.of(round); round.Contender != contender || !has {
			continue
		}
		of := side{round.Setting, round.Warm}
		if found[of] == nil {
			found[of] = turns{}
			sides = append(sides, of)
		}
		found[of][round.Turn] = round
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
		return cmp.Or(cmp.Compare(points(a), points(b)), cmp.Compare(len(found[a]), len(found[b])))
	})
	taken := sample{turns: found[best], warm: best.warm, swept: !isDefault(best.setting)}
	if taken.swept {
		taken.notes = []string{contender + " " + best.setting}
	}
	return taken
}

// isDefault reports whether a setting is the contender's default.
func isDefault(setting string) bool { return setting == "" || setting == "default" }

// whyNot returns why a goal has no value.
func whyNot(run rundir.Run, rounds []rundir.Round, g goal, target scenario.Target) string {
	for _, contender := range []string{Ours, target.Peer} {
		if reason, is := run.Skipped[contender]; is {
			return contender + " was skipped: " + reason
		}
		if contender == Ours || contender == target.Peer && target.By != scenario.Level && target.By != scenario.Ceiling {
			if reason := g.lost(contender, rounds); reason != "" {
				return contender + " " + reason
			}
		}
	}
	return "no turn with both values"
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
		if round.IsComplete() {
			return ""
		}
		why = cmp.Or(why, "has no complete round: "+cmp.Or(round.Failed, round.Rejected))
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
