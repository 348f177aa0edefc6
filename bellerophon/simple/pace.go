package simple

import "time"

// smoothing is the weight of the latest duration in a pace. A pace is forgotten when nothing has ended for memory.
const (
	smoothing = 0.2
	memory    = time.Minute
)

// pace is how long something takes lately. A busy cluster is slow for all, so what takes no longer than
// twice the pace is no exception. A pace has no lock of its own.
type pace struct {
	typical time.Duration
	ended   time.Time // when the latest one ended
}

// took records what has just ended.
func (p *pace) took(duration time.Duration, now time.Time) {
	if now.Sub(p.ended) > memory {
		p.typical = duration
	}
	p.typical += time.Duration(smoothing * float64(duration-p.typical))
	p.ended = now
}

// patience returns twice the pace, within bounds.
func (p *pace) patience(least, most time.Duration, now time.Time) time.Duration {
	if now.Sub(p.ended) > memory {
		return least
	}
	return min(max(2*p.typical, least), most)
}
