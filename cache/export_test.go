package cache

import "time"

// Observe makes observe visible to the tests of the measurement itself.
func (l *Loop) Observe(measurement time.Duration) { l.observe(measurement) }

// Remembered returns the number of deletions that a store remembers.
func (s *Store) Remembered() int { return s.tombstones.Len() }
