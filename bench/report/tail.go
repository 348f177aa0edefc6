package report

import (
	"cmp"
	"maps"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/bellerophon-io/bellerophon/bench/rundir"
)

const (
	// enoughSamples is how many latencies a 99th percentile needs, so that ten of them are above it.
	enoughSamples = 1000
	// fewSamples is up to how many latencies the 99th percentile of a kept round is its maximum.
	fewSamples = 99
)

// tails returns the measures of the slowest latencies. Which of them a table has depends on what the
// rounds hold: all latencies, or the 99th percentile of each round alone.
func tails(title string, of rundir.Measure) []measure {
	pooled := pooledTail(title, of)

	each := timed(title+", p99 of a round", of+"_of_a_round")
	each.of = kept(of, func(samples float64) bool { return samples >= enoughSamples })

	unkept := timed(title+", 99th percentile of a round with too few latencies", of+"_of_few")
	unkept.of = kept(of, func(samples float64) bool { return samples > fewSamples && samples < enoughSamples })

	largest := timed(title+", maximum of a round", of+"_max")
	largest.of = func(round rundir.Round) (float64, bool) {
		if bars := round.Samples[of].Bars(); len(bars) > 0 {
			return bars[len(bars)-1].Latency.Seconds(), true
		}
		return kept(of, func(samples float64) bool { return samples <= fewSamples })(round)
	}
	largest.shown = func(rounds []rundir.Round) bool { return !pooledByAll(of, rounds) }
	return []measure{pooled, each, unkept, largest}
}

// pooledTail creates a measure of the p99 of all rounds together.
func pooledTail(title string, of rundir.Measure) measure {
	pooled := timed(title+", p99 of all rounds together", of)
	pooled.pooled = of
	pooled.of = func(round rundir.Round) (float64, bool) {
		_, has := round.Samples[of]
		return 0, has
	}
	return pooled
}

// tail is the name of a measure of the slowest latencies.
type tail struct {
	name     string
	isEnough bool // its values are 99th percentiles of enough latencies
}

// tailsOf returns the measures that stand in for a p99 of all rounds, the best first.
func tailsOf(name string) []tail {
	return []tail{{name, true}, {name + "_of_a_round", true}, {name + "_of_few", false}, {name + "_max", false}}
}

// kept returns the 99th percentile of a round that kept no latencies, if their number is as wanted.
func kept(of rundir.Measure, wanted func(samples float64) bool) func(rundir.Round) (float64, bool) {
	return func(round rundir.Round) (float64, bool) {
		value, is := round.Measured[of]
		return value, is && wanted(samplesOf(of, round))
	}
}

// samplesOf returns how many latencies a round without samples had. Each object has one latency, except
// that objects of a storm have several reactions, whose number was not kept.
func samplesOf(of rundir.Measure, round rundir.Round) float64 {
	if of == rundir.Reaction99 && round.Scenario == "storm" {
		return fewSamples + 1
	}
	return round.Measured[rundir.Objects]
}

// pooledByAll reports whether each contender has enough latencies with each of its settings, so that no
// maximum has to stand in for a p99.
func pooledByAll(of rundir.Measure, rounds []rundir.Round) bool {
	by := map[string][]rundir.Round{}
	for _, round := range rounds {
		if _, has := round.Samples[of]; has {
			name := label(round.Contender, round.Setting, round.Warm)
			by[name] = append(by[name], round)
		}
	}
	for _, some := range by {
		if poolOf(of, some).size() < enoughSamples {
			return false
		}
	}
	return len(by) > 0
}

// pool holds the latencies of several rounds.
type pool struct {
	seconds []float64 // the distinct latencies, the longest first
	counts  [][]int64 // by latency, then by round
	totals  []int64   // by round
}

func poolOf(of rundir.Measure, rounds []rundir.Round) pool {
	counts := map[float64][]int64{}
	p := pool{totals: make([]int64, len(rounds))}
	for i, round := range rounds {
		for _, bar := range round.Samples[of].Bars() {
			latency := bar.Latency.Seconds()
			if counts[latency] == nil {
				counts[latency] = make([]int64, len(rounds))
			}
			counts[latency][i] += bar.Count
			p.totals[i] += bar.Count
		}
	}
	p.seconds = slices.SortedFunc(maps.Keys(counts), func(a, b float64) int { return cmp.Compare(b, a) })
	for _, latency := range p.seconds {
		p.counts = append(p.counts, counts[latency])
	}
	return p
}

// size returns the number of latencies.
func (p pool) size() (size int64) {
	for _, total := range p.totals {
		size += total
	}
	return size
}

// p99 returns the smallest latency such that at least 99 % are not longer. Each round counts as often as
// its weight says.
func (p pool) p99(weights []int64) float64 {
	var size int64
	for round, total := range p.totals {
		size += weights[round] * total
	}
	longer := size - int64(math.Ceil(0.99*float64(size)))
	for i, latency := range p.seconds {
		for round, count := range p.counts[i] {
			longer -= weights[round] * count
		}
		if longer < 0 {
			return latency
		}
	}
	return 0
}

// intervalOfRounds returns a value of all rounds with its bootstrap interval. A resample draws rounds, because
// the latencies of one round depend on each other.
func intervalOfRounds(rounds int, value func(weights []int64) float64) interval {
	random := rand.New(rand.NewPCG(1, uint64(rounds)))
	weights, values := make([]int64, rounds), make([]float64, resamples)
	for i := range values {
		clear(weights)
		for range rounds {
			weights[random.IntN(rounds)]++
		}
		values[i] = value(weights)
	}
	for i := range weights {
		weights[i] = 1
	}
	low, high := middle(values)
	return interval{value(weights), low, high, rounds}
}

// statistic summarizes the rounds of one contender. It returns false if they have too few latencies for a
// p99 of all of them.
func (m measure) statistic(rounds []rundir.Round) (Statistic, bool) {
	if m.pooled == "" {
		values := make([]float64, len(rounds))
		for i, round := range rounds {
			values[i], _ = m.of(round)
		}
		return statisticOf(values), true
	}
	all := poolOf(m.pooled, rounds)
	is := intervalOfRounds(len(rounds), all.p99)
	return Statistic{len(rounds), is.median, is.low, is.high, nil}, all.size() >= enoughSamples
}

// turns holds the rounds of one contender by turn.
type turns map[int]rundir.Round

// ratio returns the ratio within the turns that both contenders have, and false if there is none.
func (m measure) ratio(over, under turns) (interval, bool) {
	if m.pooled == "" {
		ratios := ratiosOf(m.values(over), m.values(under))
		if len(ratios) == 0 {
			return interval{}, false
		}
		return intervalOf(ratios), true
	}
	var above, below []rundir.Round
	for _, turn := range slices.Sorted(maps.Keys(over)) {
		if other, both := under[turn]; both {
			above, below = append(above, over[turn]), append(below, other)
		}
	}
	a, b := poolOf(m.pooled, above), poolOf(m.pooled, below)
	if min(a.size(), b.size()) < enoughSamples {
		return interval{}, false
	}
	return intervalOfRounds(len(above), func(weights []int64) float64 { return a.p99(weights) / b.p99(weights) }), true
}

// values returns the values by turn.
func (m measure) values(of turns) map[int]float64 {
	values := map[int]float64{}
	for turn, round := range of {
		values[turn], _ = m.of(round)
	}
	return values
}

// whatTailsAre returns what the rounds of a run kept of their latencies, as text, or "" if they have none.
func whatTailsAre(rounds []rundir.Round) string {
	has := func(of func(rundir.Round) bool) bool { return slices.ContainsFunc(rounds, of) }
	switch {
	case has(func(round rundir.Round) bool { return len(round.Samples) > 0 }):
		return "A p99 needs 1,000 latencies or more. It is the p99 of the latencies of all rounds together, and its spread is the 95 % interval " +
			"of a bootstrap that draws rounds. With fewer latencies, tables show the maximum of each round."
	case has(func(round rundir.Round) bool {
		return round.Measured[rundir.Reaction99] > 0 || round.Measured[rundir.Ready99] > 0
	}):
		return "This run kept no latencies, only the 99th percentile of each round, so latencies of several rounds cannot be put together. " +
			"It is called a p99 if the round had 1,000 latencies or more, and the maximum, which it is, if the round had 99 or fewer. " +
			"Otherwise a round had too few latencies for a p99: 100 to 999, or in storms an unknown number."
	}
	return ""
}
