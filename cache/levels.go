package cache

import (
	"context"
	"fmt"
	"time"

	"github.com/bellerophon-io/bellerophon/streams"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Level returns the level of sync now.
func (c *Cache) Level() Level {
	level, _ := c.level(nil)
	return level
}

// level returns the level of some kinds, or of all that count, and until when it holds if
// nothing happens: zero if only an event can change it.
func (c *Cache) level(kinds []schema.GroupKind) (level Level, until time.Time) {
	// First, as what happens after it ends the calm.
	level = c.calm()
	now, registry := time.Now(), c.registry.Load()
	counted := false
	take := func(store *Store) {
		own, expires := store.level(now)
		if len(kinds) == 0 && !store.counts(own) {
			return
		}
		level, counted = min(level, own), true
		if until.IsZero() || !expires.IsZero() && expires.Before(until) {
			until = expires
		}
	}
	if len(kinds) == 0 {
		for _, store := range registry.order {
			take(store)
		}
		if !counted {
			return Starting, time.Time{}
		}
		return level, until
	}
	for _, kind := range kinds {
		if store := registry.stores[kind]; store != nil {
			take(store)
		}
	}
	return level, until
}

// SetOptional says whether nobody counts on the kind: below [Current] it does not count for the
// level of the cache then, except where it is named.
func (s *Store) SetOptional(optional bool) {
	if s.optional.Swap(optional) != optional {
		s.changed()
	}
}

// SetRefused says whether the server refuses to list the kind: it does not serve the kind, or
// forbids it. Before its first list such a kind does not count for the level of the cache, except
// where it is named. It may be called from any goroutine.
func (s *Store) SetRefused(refused bool) {
	if s.refused.Swap(refused) != refused {
		s.changed()
	}
}

// counts reports whether the store, at its own level, counts for the level of the cache.
func (s *Store) counts(own Level) bool {
	return own >= Current || !s.optional.Load() && (own >= Listed || !s.refused.Load())
}

// Counts reports whether the kind counts for the level of the cache: see [Store.SetOptional]
// and [Store.SetRefused].
func (s *Store) Counts() bool { return s.counts(s.Level()) }

// Level returns the store's own level, [Converged] at best.
func (s *Store) Level() Level {
	level, _ := s.level(time.Now())
	return level
}

func (s *Store) level(now time.Time) (level Level, until time.Time) {
	visible := s.overlay.empty()
	level, until = s.published.Load().scopes.level(now, s.bound)
	if level > Current && !visible {
		level = Current
	}
	return level, until
}

// Pending returns what a level is still waiting for, for people: the kinds that have not
// reached it, then what the pipeline says (see [Cache.Follow]).
func (c *Cache) Pending(level Level) []string {
	var pending []string
	for _, store := range c.Stores() {
		if own := store.Level(); own < min(level, OwnWritesVisible) && store.counts(own) {
			pending = append(pending, store.kind.String())
		}
	}
	if c.work != nil {
		pending = append(pending, c.work.Pending(level)...)
	}
	return pending
}

// NotCounted returns the kinds that do not count for the level now: see [Store.Counts].
func (c *Cache) NotCounted() []string {
	var kinds []string
	for _, store := range c.Stores() {
		if !store.Counts() {
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
// changes that come faster than the receiver reads, the latest is what counts. A level that
// falls because the server was silent for too long is emitted when it falls.
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
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		next := c.sync.await()
		level, until := c.level(kinds)
		if !visit(level) {
			return nil
		}
		var expired <-chan time.Time
		if !until.IsZero() {
			timer.Reset(time.Until(until))
			expired = timer.C
		}
		select {
		case <-next:
		case <-expired:
		case <-ctx.Done():
			level, _ = c.level(kinds)
			return fmt.Errorf("waiting for the cache, which is %v: %w", level, context.Cause(ctx))
		}
	}
}
