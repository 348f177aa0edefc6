package faults

import (
	"math"
	"time"
)

// sample is the memory of a process at a time since the begin of a soak, in bytes.
type sample struct {
	at                  time.Duration
	resident, anonymous float64
}

// Slope is the slope of the line that fits best, in bytes an hour.
type Slope struct {
	PerHour float64
	// Margin is half of the interval that has the slope with a confidence of 95 %.
	Margin float64
}

// fit returns the mean of the resident memory after the warm-up, and the slopes. The points of a line are the means
// of whole periods of the Event cache: single samples depend on their neighbours, and rise and fall with the period.
func fit(samples []sample) (level float64, resident, anonymous Slope) {
	sums := map[int]sample{}
	counts := map[int]float64{}
	for _, each := range samples {
		if each.at < warmUp {
			continue
		}
		period := int((each.at - warmUp) / eventPeriod)
		sum := sums[period]
		sums[period] = sample{resident: sum.resident + each.resident, anonymous: sum.anonymous + each.anonymous}
		counts[period]++
	}
	// The last period is not whole, or has only the run that ended the soak.
	last := int((samples[len(samples)-1].at - warmUp) / eventPeriod)
	var hours, all, unbacked []float64
	for period := range last {
		if count := counts[period]; count > 0 {
			hours = append(hours, float64(period)*eventPeriod.Hours())
			all, unbacked = append(all, sums[period].resident/count), append(unbacked, sums[period].anonymous/count)
			level += sums[period].resident / count
		}
	}
	return level / float64(len(hours)), slope(hours, all), slope(hours, unbacked)
}

// students are the quantiles of Student's t distribution for two-sided intervals of 95 %, for 1 degree of freedom
// and more. For more degrees than listed, the last one is too large by 7 % at most.
var students = []float64{12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086}

// slope returns the slope of the line that fits best to some points, by the least squares. Fewer than three
// points have no interval, so that the margin is infinite.
func slope(x, y []float64) Slope {
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
