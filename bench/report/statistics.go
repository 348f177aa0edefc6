package report

import "slices"

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
	return Statistic{len(values), median(values), slices.Min(values), slices.Max(values), values}
}

// median of at least one value; of an even number the middle of the two in the middle.
func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	half := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[half]
	}
	return (sorted[half-1] + sorted[half]) / 2
}

// overlap says whether the ranges of two statistics have a value in common: then the
// difference of the medians may be chance.
func overlap(a, b Statistic) bool { return a.Min <= b.Max && b.Min <= a.Max }
