package main

import (
	"math"
	"strings"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

const (
	confidence = 0.95
	bound      = 1.05 // the upper end of an interval must not exceed it
)

// ratio compares the values of one unit of one benchmark.
type ratio struct {
	Benchmark string  `json:"benchmark"`
	Unit      string  `json:"unit"`
	Base      float64 `json:"base"`   // geometric mean; arithmetic mean if Mean is nil
	Change    float64 `json:"change"` // the same kind of mean as Base
	Pairs     int     `json:"pairs"`

	// Mean is the geometric mean of the ratios change/base, and Low to High is its confidence
	// interval. They are nil if in some pair exactly one of the two values is 0, since such a pair
	// has no ratio.
	Mean *float64 `json:"mean,omitempty"`
	Low  *float64 `json:"low,omitempty"`
	High *float64 `json:"high,omitempty"`

	Worse bool `json:"worse"` // the row fails the comparison
}

// ratioOf compares pairs of values. A pair of two zeros has the ratio 1.
func ratioOf(benchmark, unit string, base, change []float64) ratio {
	compared := ratio{Benchmark: benchmark, Unit: unit, Pairs: len(base)}
	var logs, logsOfBase []float64
	for i := range base {
		switch {
		case base[i] > 0 && change[i] > 0:
			logs = append(logs, math.Log(change[i])-math.Log(base[i]))
			logsOfBase = append(logsOfBase, math.Log(base[i]))
		case base[i] == change[i]:
			logs = append(logs, 0)
			logsOfBase = append(logsOfBase, math.Inf(-1)) // The geometric mean of base becomes 0.
		default:
			return withoutRatio(compared, base, change)
		}
	}
	mean, deviation := meanAndDeviation(logs)
	low, high := interval(mean, deviation, len(logs))
	compared.Base = math.Exp(stat.Mean(logsOfBase, nil))
	compared.Change = compared.Base * math.Exp(mean)
	middle, lower, upper := math.Exp(mean), math.Exp(low), math.Exp(high)
	compared.Mean, compared.Low, compared.High = &middle, &lower, &upper
	if isExact(unit) {
		compared.Worse = lower > 1 || upper < 1
	} else {
		compared.Worse = upper > bound
	}
	return compared
}

// withoutRatio compares arithmetic means. A difference of less than half a byte or half an
// allocation per operation is noise, since benchmarks print whole numbers.
func withoutRatio(compared ratio, base, change []float64) ratio {
	compared.Base, compared.Change = stat.Mean(base, nil), stat.Mean(change, nil)
	if isExact(compared.Unit) {
		compared.Worse = compared.Base != compared.Change
	} else {
		compared.Worse = compared.Change >= bound*compared.Base+0.5
	}
	return compared
}

// meanAndDeviation returns the mean and the standard deviation of a sample. For equal values the
// deviation is exactly 0, so that rounding does not make equal writes differ.
func meanAndDeviation(values []float64) (mean, deviation float64) {
	equal := true
	for _, value := range values {
		equal = equal && value == values[0]
	}
	if equal {
		return values[0], 0
	}
	return stat.MeanStdDev(values, nil)
}

// interval returns the confidence limits of a mean, by Student's t distribution with n-1
// degrees of freedom: mean ± t(1-α/2, n-1) · deviation / √n.
//
// The formula is from the NIST/SEMATECH e-Handbook of Statistical Methods, 1.3.5.2 "Confidence
// Limits for the Mean". It is applied to the logarithms of the ratios, so the interval is for their
// geometric mean. Because the values are paired, it is the paired test of 7.3.1.1.
func interval(mean, deviation float64, n int) (low, high float64) {
	if deviation == 0 {
		return mean, mean
	}
	t := distuv.StudentsT{Sigma: 1, Nu: float64(n - 1)}.Quantile(1 - (1-confidence)/2)
	half := t * deviation / math.Sqrt(float64(n))
	return mean - half, mean + half
}

// isExact reports whether a unit counts requests to the API server. Fewer writes are no better than
// more: they mean that something is no longer written.
func isExact(unit string) bool { return strings.HasPrefix(unit, "writes/") }

// isCompared reports whether values of a unit are compared. Other units, such as delays, have
// separate goals.
func isCompared(unit string) bool {
	switch unit {
	case "ns/op", cpuUnit, "B/op", "allocs/op":
		return true
	}
	return isExact(unit)
}
