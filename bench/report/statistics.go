package report

import (
	"slices"

	"github.com/bellerophon-io/bellerophon/bench/outcome"
)

// Statistic is what the rounds of one contender say of one measure.
type Statistic struct {
	N      int       `json:"n"` // rounds that count
	Median float64   `json:"median"`
	Min    float64   `json:"min"`
	Max    float64   `json:"max"`
	Rounds []float64 `json:"rounds"` // in the order of their start
}

// statisticOf sums up at least one value.
func statisticOf(values []float64) Statistic {
	return Statistic{len(values), outcome.Median(values), slices.Min(values), slices.Max(values), values}
}

// overlap says whether the ranges of two statistics have a value in common: then the
// difference of the medians may be chance.
func overlap(a, b Statistic) bool { return a.Min <= b.Max && b.Min <= a.Max }
