package cache

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bellerophon-io/bellerophon/streams"
)

// LoopOptions configures the measurement of the loop duration. The zero value has the defaults.
type LoopOptions struct {
	// Factor is the number of loop durations without a change that count as quiet: 1 to 1000;
	// default 10.
	Factor float64
	// Floor is the least loop duration that is assumed, however fast the loop is: 1 ms to 1 min;
	// default 10 ms. It is also the duration before the first measurement.
	Floor time.Duration
	// Ceiling is the longest duration that a measurement counts as: Floor to 1 h; default 1 min. A
	// longer measurement shows an outage more than a loop, and counts as Ceiling.
	Ceiling time.Duration
	// Smoothing is the weight of a new measurement relative to the earlier ones: above 0, up to 1;
	// default 0.2.
	Smoothing float64
}

// Defaults of [LoopOptions].
const (
	DefaultLoopFactor    = 10
	DefaultLoopFloor     = 10 * time.Millisecond
	DefaultLoopCeiling   = time.Minute
	DefaultLoopSmoothing = 0.2
)

// Loop is the smoothed duration of the control loop. A loop starts when an event is received, and
// goes on through cache, queue and reconcile. It ends with the echo of the last write in the cache,
// or with the end of a reconcile that wrote nothing. Loop is safe for use by any goroutine.
//
// It measures loops, not outages. A loop during which the source lost the server is left out. So is
// an echo that came by a list or a bookmark, and not as an event.
//
// Smoothing is exponential: each measurement m makes the duration d into d + Smoothing × (m - d).
type Loop struct {
	options  LoopOptions
	lastLoss atomic.Pointer[time.Time] // when a source last lost the server, or had it back after that; nil: never
	mu       sync.Mutex
	duration time.Duration
	measured bool
}

// newLoop creates a Loop, and returns an error for an option that is out of its range.
func newLoop(options LoopOptions) (*Loop, error) {
	if options.Factor == 0 {
		options.Factor = DefaultLoopFactor
	}
	if options.Floor == 0 {
		options.Floor = DefaultLoopFloor
	}
	if options.Ceiling == 0 {
		options.Ceiling = max(options.Floor, DefaultLoopCeiling)
	}
	if options.Smoothing == 0 {
		options.Smoothing = DefaultLoopSmoothing
	}
	switch {
	case options.Factor < 1 || options.Factor > 1000:
		return nil, fmt.Errorf("loop: Factor is %v; allowed is 1 to 1000", options.Factor)
	case options.Floor < time.Millisecond || options.Floor > time.Minute:
		return nil, fmt.Errorf("loop: Floor is %v; allowed is 1ms to 1m", options.Floor)
	case options.Ceiling < options.Floor || options.Ceiling > time.Hour:
		return nil, fmt.Errorf("loop: Ceiling is %v; allowed is Floor, which is %v, to 1h", options.Ceiling, options.Floor)
	case options.Smoothing < 0 || options.Smoothing > 1:
		return nil, fmt.Errorf("loop: Smoothing is %v; allowed is above 0, up to 1", options.Smoothing)
	}
	return &Loop{options: options}, nil
}

// observe adds a measurement. Only ObserveLoop and observeEcho call it: one for each end of a loop.
func (l *Loop) observe(measurement time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	measurement = min(measurement, l.options.Ceiling)
	if !l.measured {
		l.measured, l.duration = true, measurement
		return
	}
	l.duration += time.Duration(l.options.Smoothing * float64(measurement-l.duration))
}

// disturbed records that a source lost the server, or had it back, at a time.
func (l *Loop) disturbed(at time.Time) { l.lastLoss.Store(&at) }

// ObserveLoop adds a measurement of a loop that began with causes, the oldest received at since. The loop
// ended at a time, with an attempt that wrote nothing. ObserveLoop leaves out a loop during which the source of one of
// the causes lost the server.
func (c *Cache) ObserveLoop(causes []streams.Cause, since, ended time.Time) {
	loss := c.loop.lastLoss.Load()
	if loss == nil || since.After(*loss) { // Most of the time. It saves a look-up for each attempt.
		c.loop.observe(ended.Sub(since))
		return
	}
	stores := c.registry.Load().stores
	for i := range causes {
		store := stores[causes[i].Key.GroupKind]
		if store == nil {
			continue
		}
		if scope := store.published.Load().scopes.of(causes[i].Key.Namespace); scope != nil && !scope.measures(since) {
			return
		}
	}
	c.loop.observe(ended.Sub(since))
}

// observeEcho adds a measurement of a loop that began with an event received at since, and ends now with
// the echo of its last write. It leaves out a loop during which the source lost the server.
func (s *Store) observeEcho(namespace string, since time.Time) {
	if scope := s.published.Load().scopes.of(namespace); scope != nil && scope.measures(since) {
		s.loop.observe(time.Since(since))
	}
}

// Duration returns the smoothed duration: 0 before the first measurement.
func (l *Loop) Duration() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.duration
}

// QuietPeriod returns how long nothing may change before the cache is quiet: Factor × the duration,
// which counts as no less than Floor.
func (l *Loop) QuietPeriod() time.Duration {
	return time.Duration(l.options.Factor * float64(max(l.Duration(), l.options.Floor)))
}
