package report

import (
	"slices"

	"github.com/bellerophon-io/bellerophon/bench/rundir"
)

// Statistic summarizes one measure over the rounds of one contender.
type Statistic struct {
	N      int       `json:"n"` // rounds that count
	Median float64   `json:"median"`
	Min    float64   `json:"min"`
	Max    float64   `json:"max"`
	Rounds []float64 `json:"rounds"` // in the order of their start
}

// statisticOf summarizes at least one value.
func statisticOf(values []float64) Statistic {
	return Statistic{len(values), rundir.Median(values), slices.Min(values), slices.Max(values), values}
}

// overlap reports whether the ranges of two statistics overlap. The difference of their medians may
// then be chance.
func overlap(a, b Statistic) bool { return a.Min <= b.Max && b.Min <= a.Max }
