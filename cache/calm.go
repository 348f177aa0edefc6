package cache

import (
	"sync"
	"sync/atomic"
	"time"
)

// Work is the work of the pipeline around the cache, which the level depends on. Its methods are
// called often and from any goroutine, so they must be fast.
type Work interface {
	// Busy reports whether anything received is not done yet, anywhere between the connections to
	// the server and the last result.
	Busy() bool
	// Unfinished reports whether the last attempt of any key failed or asked for another one.
	Unfinished() bool
	// OnActivity is called after a [Cache.MarkActive] that ended a quiet period: see [Cache.Settle].
	OnActivity()
	// Pending returns what keeps the pipeline from a level, as text for people.
	Pending(level Level) []string
}

// Follow makes the level depend on the work of a pipeline. While the work is busy, no level above
// [OwnWritesVisible] is reached. While it is unfinished, no level above [Settled] is reached.
// Without Follow the level is [Settled] at best. Call Follow before the cache is used.
func (c *Cache) Follow(work Work) { c.work = work }

// levels is the part of the level that does not come from the stores.
type levels struct {
	mu         sync.Mutex
	settled    bool          // the quiet period has passed, and nothing has happened since
	lastActive time.Time     // when something happened last
	next       chan struct{} // closed when the level may have changed; nil while no goroutine waits
	awaited    atomic.Bool   // next is not nil, or about to be
}

// changed wakes the goroutines that wait for a change of the level.
func (l *levels) changed() {
	if !l.awaited.Load() { // A goroutine that is about to wait looks at the level after it has set awaited.
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.next != nil {
		close(l.next)
		l.next = nil
		l.awaited.Store(false)
	}
}

// await returns a channel that is closed when the level may have changed.
func (l *levels) await() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.next == nil {
		l.awaited.Store(true)
		l.next = make(chan struct{})
	}
	return l.next
}

// MarkActive records that something happened, so that the quiet period begins anew. Apply does this
// itself, before readers see what it applied. Call MarkActive for what the cache does not see, such
// as the end of a reconcile. It may be called from any goroutine.
func (c *Cache) MarkActive() {
	c.sync.mu.Lock()
	wasSettled := c.sync.settled
	c.sync.settled, c.sync.lastActive = false, time.Now()
	c.sync.mu.Unlock()
	if !wasSettled {
		return
	}
	c.sync.changed()
	if c.work != nil {
		c.work.OnActivity()
	}
}

// LastActive returns when MarkActive was last called, or the zero time.
func (c *Cache) LastActive() time.Time {
	c.sync.mu.Lock()
	defer c.sync.mu.Unlock()
	return c.sync.lastActive
}

// Settle records that the quiet period has passed. If anything happened less than quiet ago, it
// records nothing and returns false. Call it when nothing is pending, queued or in flight.
func (c *Cache) Settle(quiet time.Duration) bool {
	c.sync.mu.Lock()
	settled := time.Since(c.sync.lastActive) >= quiet
	if settled {
		c.sync.settled = true
	}
	c.sync.mu.Unlock()
	if settled {
		c.sync.changed()
	}
	return settled
}

// Recheck wakes the goroutines that wait for a level. The pipeline calls it at the end of work that
// does not restart the quiet period. An event that repeats what the cache holds is such work.
func (c *Cache) Recheck() { c.sync.changed() }

// settledLevel returns the highest level that the quiet period and the pipeline allow.
//
// It asks the pipeline first and reads settled again afterwards. An item that arrives after the
// question, and is applied before the answer is used, has reset settled. recheck reports whether the
// level may rise without an event, because only the pipeline's work keeps it down.
func (c *Cache) settledLevel() (level Level, recheck bool) {
	c.sync.mu.Lock()
	settled := c.sync.settled
	c.sync.mu.Unlock()
	if !settled {
		return OwnWritesVisible, false // The pipeline cannot raise it.
	}
	busy := c.work != nil && c.work.Busy()
	unfinished := c.work == nil || c.work.Unfinished()
	c.sync.mu.Lock()
	defer c.sync.mu.Unlock()
	switch {
	case busy || !c.sync.settled:
		return OwnWritesVisible, true
	case unfinished:
		return Settled, false
	}
	return Converged, false
}
