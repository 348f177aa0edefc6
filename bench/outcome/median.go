package outcome

import "slices"

// Median is the middle one of the values, or the middle between the two that are there of
// an even number. It is 0 of no values; the order of the values stays as it is.
func Median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}
