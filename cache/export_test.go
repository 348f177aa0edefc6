package cache

import "time"

// Observe makes observe visible to the tests of the measurement itself.
func (l *Loop) Observe(measurement time.Duration) { l.observe(measurement) }
