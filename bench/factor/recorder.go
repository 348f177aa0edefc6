package main

import (
	"context"
	"slices"
	"sync"
	"time"

	v1 "github.com/bellerophon-io/bellerophon/bellerophon/api/simple/v1"
	"github.com/bellerophon-io/bellerophon/cache"
	"github.com/bellerophon-io/bellerophon/operators"
	"github.com/bellerophon-io/bellerophon/streams"
)

// attempt is one result of the operator.
type attempt struct {
	from, to time.Time
	loop     time.Duration
	cause    streams.Cause // the oldest cause; the zero value for a timer
}

// recorder records the attempts of one manager, and the level of its cache. Its methods may
// be called from any goroutine.
type recorder struct {
	loop  func() time.Duration
	ended chan struct{} // receives an element after an attempt

	mu       sync.Mutex
	from     time.Time // earlier attempts and rises are left out
	attempts []attempt
	levels   []change
}

// change is a change of the level to Settled or above, or to a level below Settled.
type change struct {
	at      time.Time
	settled bool
	loop    time.Duration
}

func newRecorder() *recorder { return &recorder{ended: make(chan struct{}, 1), from: time.Now()} }

// result records one attempt.
func (r *recorder) result(result operators.Result) {
	taken := attempt{from: result.Received, to: result.Started.Add(result.Duration), loop: r.loop()}
	if len(result.Causes) > 0 {
		taken.cause = result.Causes[0]
	}
	r.mu.Lock()
	r.attempts = append(r.attempts, taken)
	r.mu.Unlock()
	select {
	case r.ended <- struct{}{}:
	default:
	}
}

// level records a level of the cache.
func (r *recorder) level(level cache.Level) {
	r.mu.Lock()
	defer r.mu.Unlock()
	settled := level >= cache.Settled
	if before := len(r.levels) - 1; before >= 0 && r.levels[before].settled == settled {
		return
	}
	r.levels = append(r.levels, change{at: time.Now(), settled: settled, loop: r.loop()})
}

// begin starts a new recording: attempts and rises that ended before now are left out.
func (r *recorder) begin() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.from = time.Now()
}

// calm waits until no attempt has ended for the duration quiet returns, or until limit is over.
func (r *recorder) calm(ctx context.Context, limit time.Duration, quiet func() time.Duration) error {
	over, timer := time.NewTimer(limit), time.NewTimer(quiet())
	defer over.Stop()
	defer timer.Stop()
	for {
		select {
		case <-r.ended:
			timer.Reset(quiet())
		case <-timer.C:
			return nil
		case <-over.C:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// recording holds the attempts and rises that a recorder recorded up to a time.
type recording struct {
	spans       []span
	rises       []gap // of Settled, as the cache reported them
	from, until time.Time
}

// end returns the recording from begin until now. load holds the resource versions that the load
// wrote.
func (r *recorder) end(load map[string]bool) recording {
	r.mu.Lock()
	defer r.mu.Unlock()
	recorded := recording{from: r.from, until: time.Now()}
	for _, a := range r.attempts {
		if !a.to.Before(r.from) {
			recorded.spans = append(recorded.spans, span{from: a.from, to: a.to, loop: a.loop, load: ofLoad(a.cause, load)})
		}
	}
	for i, change := range r.levels {
		if !change.settled || change.at.Before(r.from) {
			continue
		}
		rise := gap{length: recorded.until.Sub(change.at), loop: change.loop, open: true}
		if i+1 < len(r.levels) {
			rise.length, rise.open = r.levels[i+1].at.Sub(change.at), false
		}
		recorded.rises = append(recorded.rises, rise)
	}
	return recorded
}

// ofLoad reports whether a cause is a write of the load. A deletion has a resource version that
// the load does not learn, but only the load deletes these objects.
func ofLoad(cause streams.Cause, load map[string]bool) bool {
	if cause.Type == streams.Deleted && cause.Key.Kind == v1.Kind {
		return true
	}
	return load[cause.ResourceVersion]
}

// observed is the behaviour of Settled in the process, with the default factor.
type observed struct {
	Rises     int `json:"rises"`
	Premature int `json:"premature"`             // rises after which Settled fell within one loop
	Soon      int `json:"followedWithinASecond"` // rises after which Settled fell within a second
}

// observedOf counts rises of Settled. A rise is a gap with factor 0, because the gap starts with
// the rise.
func observedOf(rises []gap, floor time.Duration) observed {
	found := calmOf(rises, 0, floor)
	return observed{Rises: found.Rises, Premature: found.Premature, Soon: found.Soon}
}

// medianLoop returns the median loop duration at the starts of gaps, in seconds, or nil.
func medianLoop(gaps []gap) *float64 {
	var loops []float64
	for _, gap := range gaps {
		loops = append(loops, gap.loop.Seconds())
	}
	slices.Sort(loops)
	return quantile(0.5, loops)
}
