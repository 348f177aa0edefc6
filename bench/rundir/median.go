package rundir

import "slices"

// Median returns the middle value, or the mean of the two middle values if their number is
// even. It returns 0 for no values, and does not reorder its argument.
func Median(values []float64) float64 {
	return MedianOfSorted(slices.Sorted(slices.Values(values)))
}

// MedianOfSorted returns the median of values in ascending order.
func MedianOfSorted(sorted []float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}
