package report

import (
	"math/rand/v2"
	"slices"

	"github.com/bellerophon-io/bellerophon/bench/rundir"
)

const (
	// enough is the number of turns that a verdict needs. The range of five values holds the true
	// median with a probability of 94 % only, and the range of six with 97 %.
	enough = 6
	// resamples is the number of resamples of a bootstrap.
	resamples = 2000
)

// interval is a median with its 95 % interval.
type interval struct {
	median, low, high float64
	turns             int // how many turns have a value
}

// intervalOf returns the median of at least one value, with the percentile bootstrap interval (Efron
// and Tibshirani, An Introduction to the Bootstrap, chapter 13). It depends on the values alone.
func intervalOf(values []float64) interval {
	random := rand.New(rand.NewPCG(1, uint64(len(values))))
	medians, drawn := make([]float64, resamples), make([]float64, len(values))
	for i := range medians {
		for j := range drawn {
			drawn[j] = values[random.IntN(len(values))]
		}
		slices.Sort(drawn)
		medians[i] = rundir.MedianOfSorted(drawn)
	}
	low, high := middle(medians)
	return interval{rundir.Median(values), low, high, len(values)}
}

// Interval returns the median of at least one value, with its 95 % interval.
func Interval(values []float64) (median, low, high float64) {
	is := intervalOf(values)
	return is.median, is.low, is.high
}

// middle returns the bounds of the middle 95 % of the values of all resamples. It sorts them.
func middle(values []float64) (low, high float64) {
	slices.Sort(values)
	const cut = resamples / 40 // 2.5 % on either side
	return values[cut], values[resamples-1-cut]
}

// largestOf returns the largest of at least one value, whose interval is a point.
func largestOf(values []float64) interval {
	largest := slices.Max(values)
	return interval{largest, largest, largest, len(values)}
}
