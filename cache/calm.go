package cache

import (
	"sync"
	"time"
)

// Work is what the cache asks the pipeline around it. Its methods may be called from any
// goroutine, often, and must be fast.
type Work interface {
	// Busy reports whether anything that has come is not done yet, anywhere between the
	// connections to the server and the last result.
	Busy() bool
	// Unfinished reports whether the last attempt of any key failed, or asked for another.
	Unfinished() bool
	// Stirred is called after each [Cache.MarkActive].
	Stirred()
	// Pending returns what keeps the pipeline from a level, for people.
	Pending(level Level) []string
}

// Follow has the level take the work of a pipeline into account: no level above
// [OwnWritesVisible] while it is busy, and none above [Settled] while it is unfinished.
// Without it the level is [Settled] at best. Call it before the cache is used.
func (c *Cache) Follow(work Work) { c.work = work }

// levels is what the level is made of, besides the stores.
type levels struct {
	mu      sync.Mutex
	settled bool
	stirred time.Time     // when something happened last
	next    chan struct{} // is closed when the level may have changed; nil while nobody waits
}

// changed wakes whoever waits for a change of the level.
func (l *levels) changed() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.next != nil {
		close(l.next)
		l.next = nil
	}
}

// await returns a channel that is closed when the level may have changed.
func (l *levels) await() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.next == nil {
		l.next = make(chan struct{})
	}
	return l.next
}

// MarkActive notes that something happened, which ends a calm. Apply does so itself, before
// readers see what it applied; others call it for what the cache does not see, such as
// the end of a reconcile. It may be called from any goroutine.
func (c *Cache) MarkActive() {
	c.sync.mu.Lock()
	calm := c.sync.settled
	c.sync.settled, c.sync.stirred = false, time.Now()
	c.sync.mu.Unlock()
	if calm {
		c.sync.changed()
	}
	if c.work != nil {
		c.work.Stirred()
	}
}

// Settle notes that all has calmed down, unless something stirred less than quiet ago:
// then it is false. Call it when nothing is pending, queued or in flight.
func (c *Cache) Settle(quiet time.Duration) bool {
	c.sync.mu.Lock()
	calm := time.Since(c.sync.stirred) >= quiet
	if calm {
		c.sync.settled = true
	}
	c.sync.mu.Unlock()
	if calm {
		c.sync.changed()
	}
	return calm
}

// Reconsider wakes whoever waits for a level. The pipeline calls it when work has ended that
// ended no calm, such as an event that repeats what the cache holds.
func (c *Cache) Reconsider() { c.sync.changed() }

// calm returns the level that calm and the pipeline allow.
//
// The pipeline is asked before the calm is read: what comes after the question, and has been
// applied before the answer is used, has ended the calm.
func (c *Cache) calm() Level {
	c.sync.mu.Lock()
	settled := c.sync.settled
	c.sync.mu.Unlock()
	if !settled {
		return OwnWritesVisible // There is no need to ask.
	}
	busy := c.work != nil && c.work.Busy()
	unfinished := c.work == nil || c.work.Unfinished()
	c.sync.mu.Lock()
	defer c.sync.mu.Unlock()
	switch {
	case busy || !c.sync.settled:
		return OwnWritesVisible
	case unfinished:
		return Settled
	}
	return Converged
}
