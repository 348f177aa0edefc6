package figure

import (
	"fmt"
	"math"
)

// Axis maps values to places. Create it with [Linear], [Log] or [LogOf].
type Axis struct {
	Name  string
	ticks []Tick
	part  func(value float64) float64 // 0 at the begin of the axis, 1 at its end
}

// Tick is a value with its label.
type Tick struct {
	Value float64
	Label string
}

// Linear returns an axis from 0 to at least most, in a number of round steps. The format is of the labels.
func Linear(name string, most float64, steps int, format string) Axis {
	step := niceStep(most / float64(steps))
	end := step * float64(steps)
	a := Axis{Name: name, part: func(value float64) float64 { return value / end }}
	for i := range steps + 1 {
		value := step * float64(i)
		a.ticks = append(a.ticks, Tick{value, fmt.Sprintf(format, value)})
	}
	return a
}

// Log returns a logarithmic axis over whole powers of ten that holds all values above 0. A value of 0 is at its
// begin.
func Log(name string, values []float64, label func(value float64) string) Axis {
	low, high := math.Inf(1), math.Inf(-1)
	for _, value := range values {
		if value > 0 {
			low, high = min(low, math.Floor(math.Log10(value))), max(high, math.Ceil(math.Log10(value)))
		}
	}
	if low > high {
		low, high = 0, 1
	}
	high = max(high, low+1)
	a := Axis{Name: name, part: logPart(low, high)}
	for power := low; power <= high; power++ {
		value := math.Pow(10, power)
		a.ticks = append(a.ticks, Tick{value, label(value)})
	}
	return a
}

// margin is the part of an axis before its first and after its last measured value.
const margin = 0.05

// LogOf returns a logarithmic axis whose ticks are the measured values, in rising order and above 0. It is a little
// longer than they are, so that labels of points do not meet labels of the other axis.
func LogOf(name string, values []float64, label func(value float64) string) Axis {
	low := math.Log10(values[0])
	inner := logPart(low, max(math.Log10(values[len(values)-1]), low+0.1))
	a := Axis{Name: name, part: func(value float64) float64 { return margin + (1-2*margin)*inner(value) }}
	for _, value := range values {
		a.ticks = append(a.ticks, Tick{value, label(value)})
	}
	return a
}

func logPart(low, high float64) func(float64) float64 {
	return func(value float64) float64 {
		return max(0, (math.Log10(value)-low)/(high-low))
	}
}

// niceStep returns the smallest value of at least step that is 1, 2 or 5 times a power of ten.
func niceStep(step float64) float64 {
	if step <= 0 {
		return 1
	}
	power := math.Pow(10, math.Floor(math.Log10(step)))
	for _, nice := range []float64{1, 2, 5} {
		if step <= nice*power {
			return nice * power
		}
	}
	return 10 * power
}
