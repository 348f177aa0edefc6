package faults

import (
	"time"

	"github.com/bellerophon-io/bellerophon/internal/slope"
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

// fit returns the mean of the resident memory after the warm-up, and the slopes over whole periods of the Event
// cache.
func fit(samples []sample) (level float64, resident, anonymous Slope) {
	all, unbacked := make([]slope.Sample, len(samples)), make([]slope.Sample, len(samples))
	for i, each := range samples {
		all[i], unbacked[i] = slope.Sample{At: each.at, Value: each.resident}, slope.Sample{At: each.at, Value: each.anonymous}
	}
	level, of := slope.Of(all, warmUp, eventPeriod)
	_, ofUnbacked := slope.Of(unbacked, warmUp, eventPeriod)
	return level, Slope(of), Slope(ofUnbacked)
}
