package ideal

import "time"

// The bounds of the contract for the first status of a new object.
const (
	mostHeld = 2 * time.Minute
	memory   = time.Minute
)

// lag is how long the StatefulSet controller takes to follow lately. It has no lock of its own.
type lag struct {
	typical time.Duration
	ended   time.Time // when it followed last
}

func (l *lag) took(duration time.Duration, now time.Time) {
	if now.Sub(l.ended) > memory {
		l.typical = duration
	}
	l.typical += (duration - l.typical) / 5
	l.ended = now
}

// held returns how long the status of a new object may be left out.
func (l *lag) held(now time.Time) time.Duration {
	if now.Sub(l.ended) > memory {
		return 0
	}
	return min(2*l.typical, mostHeld)
}
