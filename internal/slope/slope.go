// Package slope fits a line to the memory of a process, or to another value over time, with an interval.
package slope

import (
	"math"
	"time"
)

// Sample is a value at a time since the begin of a measurement.
type Sample struct {
	At    time.Duration
	Value float64
}

// Slope is the slope of the line that fits best, in units of the value an hour.
type Slope struct {
	PerHour float64
	// Margin is half of the interval that has the slope with a confidence of 95 %. It is infinite below
	// three points.
	Margin float64
}

// Of returns the slope of samples, and the mean of the values after the warm-up. The samples are in the order of
// their times. The points of the line are the means of whole periods after the warm-up: single samples depend on
// their neighbours, and rise and fall with the period. The period of the last sample is not whole, so it is no
// point.
func Of(samples []Sample, warmUp, period time.Duration) (level float64, found Slope) {
	if len(samples) == 0 {
		return math.NaN(), line(nil, nil)
	}
	last := int((samples[len(samples)-1].At - warmUp) / period)
	sums, counts := make([]float64, max(0, last)), make([]float64, max(0, last))
	for _, each := range samples {
		if at := int((each.At - warmUp) / period); each.At >= warmUp && at < last {
			sums[at] += each.Value
			counts[at]++
		}
	}
	var hours, means []float64
	for i, count := range counts {
		if count > 0 {
			hours, means = append(hours, float64(i)*period.Hours()), append(means, sums[i]/count)
			level += sums[i] / count
		}
	}
	return level / float64(len(means)), line(hours, means)
}

// students are the quantiles of Student's t distribution for two-sided intervals of 95 %, for 1 degree of freedom
// and more. For more degrees than listed, the last one is too large by 7 % at most.
var students = []float64{12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086}

// line returns the slope of the line that fits best to some points, by the least squares. Its interval is by
// Student's t distribution with two degrees of freedom less than points. Both are in section 1.4 of Draper and
// Smith, Applied Regression Analysis (1998).
func line(x, y []float64) Slope {
	count := float64(len(x))
	var meanX, meanY, above, below, rest float64
	for i := range x {
		meanX, meanY = meanX+x[i]/count, meanY+y[i]/count
	}
	for i := range x {
		above += (x[i] - meanX) * (y[i] - meanY)
		below += (x[i] - meanX) * (x[i] - meanX)
	}
	if len(x) < 3 || below == 0 {
		return Slope{Margin: math.Inf(1)}
	}
	found := Slope{PerHour: above / below}
	for i := range x {
		off := y[i] - meanY - found.PerHour*(x[i]-meanX)
		rest += off * off
	}
	degrees := len(x) - 2
	found.Margin = students[min(degrees, len(students))-1] * math.Sqrt(rest/float64(degrees)/below)
	return found
}
