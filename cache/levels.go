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

// LevelOf returns the level of sync of some kinds now, as [Cache.Wait] with these kinds takes it.
func (c *Cache) LevelOf(kinds ...schema.GroupKind) Level {
	level, _ := c.level(kinds)
	return level
}

// recheckAfter is the time after which a waiter looks again at a pipeline that is busy although the quiet
// period has passed. Not every end of its work is an event here: a stage of the user has counts alone.
const recheckAfter = 100 * time.Millisecond

// level returns the level of the given kinds, or of all kinds that count. until is when the level
// may change if nothing happens, or zero if only an event can change it.
func (c *Cache) level(kinds []schema.GroupKind) (level Level, until time.Time) {
	// This comes first: what happens after it resets settled, and so is not missed.
	level, recheck := c.settledLevel()
	now, registry := time.Now(), c.registry.Load()
	if recheck {
		until = now.Add(recheckAfter)
	}
	counted := false
	take := func(store *Store) {
		own, expires := store.level(now)
		if len(kinds) == 0 && !store.counts(own) {
			return
		}
		level, counted = min(level, own), true
		if until.IsZero() && !expires.IsZero() || !expires.IsZero() && expires.Before(until) {
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

// SetOptional sets whether the kind is optional. Below [Current], an optional kind does not count
// for the level of the cache, except in a [Cache.Wait] that names it.
func (s *Store) SetOptional(optional bool) {
	if s.optional.Swap(optional) != optional {
		s.changed()
	}
}

// SetRefused sets whether the server refuses to list the kind, because it does not serve the kind or
// forbids the list. Before its first list, a refused kind does not count for the level of the cache,
// except in a [Cache.Wait] that names it. It may be called from any goroutine.
func (s *Store) SetRefused(refused bool) {
	if s.refused.Swap(refused) != refused {
		s.changed()
	}
}

// counts reports whether the store, at its own level, counts for the level of the cache.
func (s *Store) counts(own Level) bool {
	return own >= Current || !s.optional.Load() && (own >= Listed || !s.refused.Load())
}

// IsCounted reports whether the kind counts for the level of the cache: see [Store.SetOptional]
// and [Store.SetRefused].
func (s *Store) IsCounted() bool { return s.counts(s.Level()) }

// Level returns the store's own level, without the pipeline: [Converged] at best.
func (s *Store) Level() Level {
	level, _ := s.level(time.Now())
	return level
}

// level returns the store's own level, and when it may fall if nothing happens.
func (s *Store) level(now time.Time) (level Level, until time.Time) {
	visible := s.overlay.empty()
	selection, scopes := s.selection.Load(), s.published.Load().scopes
	level, until = scopes.level(now, s.bound)
	if level > Listed && selection != nil && !scopes.selected(selection.Number) {
		return Listed, time.Time{}
	}
	if level > Current && !visible {
		level = Current
	}
	return level, until
}

// Pending returns what a level is still waiting for, as text for people: first the kinds that have
// not reached it, then what the pipeline reports (see [Cache.Follow]).
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

// NotCounted returns the kinds that do not count for the level at the moment: see [Store.IsCounted].
func (c *Cache) NotCounted() []string {
	var kinds []string
	for _, store := range c.Stores() {
		if !store.IsCounted() {
			kinds = append(kinds, store.kind.String())
		}
	}
	return kinds
}

// Wait returns nil once the cache is at the level or above, or an error when ctx ends. With kinds, it
// waits for these alone, and skips a kind that the cache does not have or no longer has. Without
// kinds, it waits for all kinds that count.
func (c *Cache) Wait(ctx context.Context, level Level, kinds ...schema.GroupKind) error {
	return c.watch(ctx, kinds, func(now Level) bool { return now < level })
}

// Levels returns a stream of the level now and of each level that it changes to. Changes that come
// faster than the receiver reads are conflated into the latest level. A level that falls because the
// server was silent for too long is emitted when it falls.
func (c *Cache) Levels() streams.Stream[Level] {
	return streams.Create(func(ctx context.Context, out streams.Sink[Level]) {
		last, first := Starting, true
		_ = c.watch(ctx, nil, func(now Level) bool { // The error only says that ctx has ended.
			if first || now != last {
				first, last = false, now
				return out.Send([]Level{now})
			}
			return true
		})
	})
}

// watch calls visit with the level of the given kinds, or of all, now and after each change, until
// visit returns false. It returns an error when ctx ends.
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
			return fmt.Errorf("waiting for the cache, whose level is %v: %w", level, context.Cause(ctx))
		}
	}
}
