package operators

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// Backoff is the policy of waiting between attempts that fail: First, then twice as long each time,
// up to Max. A random part of up to ±Jitter spreads each wait, so that tasks which failed together
// do not come back together.
type Backoff struct {
	First  time.Duration // 1 ms to Max; default 50 ms
	Max    time.Duration // up to 24 h; default 5 min
	Jitter float64       // 0 to 0.5, as a fraction of the wait; default 0.1; negative for none
}

// Defaults of [Backoff].
const (
	DefaultBackoffFirst  = 50 * time.Millisecond
	DefaultBackoffMax    = 5 * time.Minute
	DefaultBackoffJitter = 0.1
)

// withDefaults fills in the defaults, and returns an error for a field that is out of its range.
func (b Backoff) withDefaults() (Backoff, error) {
	if b.First == 0 {
		b.First = DefaultBackoffFirst
	}
	if b.Max == 0 {
		b.Max = max(b.First, DefaultBackoffMax)
	}
	if b.Jitter == 0 {
		b.Jitter = DefaultBackoffJitter
	}
	switch {
	case b.Max < 0 || b.Max > 24*time.Hour:
		return b, fmt.Errorf("backoff: Max is %v; allowed is up to 24h", b.Max)
	case b.First < time.Millisecond || b.First > b.Max:
		return b, fmt.Errorf("backoff: First is %v; allowed is 1ms to Max, which is %v", b.First, b.Max)
	case b.Jitter > 0.5:
		return b, fmt.Errorf("backoff: Jitter is %v; allowed is up to 0.5", b.Jitter)
	}
	return b, nil
}

// delay returns the wait after a number of failures in a row, which is 1 or more.
func (b Backoff) delay(failures int) time.Duration {
	wait := b.First
	for ; failures > 1 && wait < b.Max; failures-- {
		wait *= 2
	}
	wait = min(wait, b.Max)
	if b.Jitter > 0 {
		wait += time.Duration(b.Jitter * (2*rand.Float64() - 1) * float64(wait))
	}
	return wait
}
