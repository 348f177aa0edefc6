package cache

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/bellerophon-io/bellerophon/streams"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Level says how far the cache is in sync. Each level includes those before it. It is that of
// the kind that lags most, of those that are not optional: a kind that is added takes it back to
// Starting, until its first list is in, and without kinds it is Starting.
type Level uint8

// The levels.
const (
	Starting         Level = iota
	Listed                 // every kind's first list is complete
	Current                // caught up with what was current on the server when we asked
	OwnWritesVisible       // the watch has passed every own write
	Settled                // calm: no event for 10 loop durations, nothing pending, queued or in flight
)

var levelNames = [...]string{"Starting", "Listed", "Current", "OwnWritesVisible", "Settled"}

func (l Level) String() string {
	if int(l) >= len(levelNames) {
		return "Unknown"
	}
	return levelNames[l]
}

// MarshalText is the level's name.
func (l Level) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// UnmarshalText takes the level's name.
func (l *Level) UnmarshalText(name []byte) error {
	for level, known := range levelNames {
		if known == string(name) {
			*l = Level(level)
			return nil
		}
	}
	return fmt.Errorf("there is no level %q; allowed are %s", name, strings.Join(levelNames[:], ", "))
}

// levels is what the level is made of, besides the stores.
type levels struct {
	mu      sync.Mutex
	settled bool
	stirred time.Time     // when something happened last
	next    chan struct{} // is closed when the level may have changed; nil while nobody waits
}

func (l *levels) changed() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.next != nil {
		close(l.next)
		l.next = nil
	}
}

// Stir notes that something happened, which ends a calm. Apply does so itself, before
// readers see what it applied; others call it for what the cache does not see, such as
// the end of a reconcile. It may be called from any goroutine.
func (c *Cache) Stir() {
	c.sync.mu.Lock()
	calm := c.sync.settled
	c.sync.settled, c.sync.stirred = false, time.Now()
	c.sync.mu.Unlock()
	if calm {
		c.sync.changed()
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

// Level is the level of sync now.
func (c *Cache) Level() Level {
	c.sync.mu.Lock()
	settled := c.sync.settled
	c.sync.mu.Unlock()
	return c.level(settled, nil)
}

// level is that of some kinds, or of all.
func (c *Cache) level(settled bool, kinds []schema.GroupKind) Level {
	level := Settled
	if !settled {
		level = OwnWritesVisible
	}
	now := c.registry.Load()
	if len(kinds) > 0 {
		for _, kind := range kinds {
			if store := now.stores[kind]; store != nil {
				level = min(level, store.Level())
			}
		}
		return level
	}
	counted := false
	for _, store := range now.order {
		own := store.Level()
		if !store.counts(own) {
			continue
		}
		level, counted = min(level, own), true
	}
	if !counted {
		return Starting
	}
	return level
}

// SetOptional says whether nobody counts on the kind: below [Current] it does not count for the
// level of the cache then, except where it is named.
func (s *Store) SetOptional(optional bool) {
	if s.optional.Swap(optional) != optional {
		s.changed()
	}
}

// counts says whether the store, which is at a level, counts for that of the cache.
func (s *Store) counts(own Level) bool { return own >= Current || !s.optional.Load() }

// Level is the store's own, Settled at best.
func (s *Store) Level() Level {
	visible := s.overlay.empty()
	level := s.published.Load().scopes.level()
	if level > Current && !visible {
		return Current
	}
	return level
}

// Pending says what a level is still waiting for, for people: the kinds that have not
// reached it.
func (c *Cache) Pending(level Level) []string {
	var kinds []string
	for _, store := range c.Stores() {
		if own := store.Level(); own < min(level, OwnWritesVisible) && store.counts(own) {
			kinds = append(kinds, store.kind.String())
		}
	}
	return kinds
}

// Wait returns once the cache is at a level or above, or with the error of ctx. Where kinds
// are named, their level counts alone; one that is not there, or is removed meanwhile, is not
// waited for. Without kinds it is that of all.
func (c *Cache) Wait(ctx context.Context, level Level, kinds ...schema.GroupKind) error {
	return c.watch(ctx, kinds, func(now Level) bool { return now < level })
}

// Levels is the stream of levels: the level now, and each one that it changes to. Of
// changes that come faster than the receiver reads, the latest is what counts.
func (c *Cache) Levels() streams.Stream[Level] {
	return streams.Create(func(ctx context.Context, out streams.Sink[Level]) {
		last, first := Starting, true
		_ = c.watch(ctx, nil, func(now Level) bool { // ctx ends it, and that is its end.
			if first || now != last {
				first, last = false, now
				return out.Send([]Level{now})
			}
			return true
		})
	})
}

// watch calls visit with the level of some kinds, or of all, now and after each change, until
// it says false.
func (c *Cache) watch(ctx context.Context, kinds []schema.GroupKind, visit func(Level) bool) error {
	for {
		c.sync.mu.Lock()
		if c.sync.next == nil {
			c.sync.next = make(chan struct{})
		}
		next, settled := c.sync.next, c.sync.settled
		c.sync.mu.Unlock()
		if !visit(c.level(settled, kinds)) {
			return nil
		}
		select {
		case <-next:
		case <-ctx.Done():
			return fmt.Errorf("waiting for the cache, which is %v: %w", c.level(settled, kinds), context.Cause(ctx))
		}
	}
}
