package cache

import (
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// registry is an immutable snapshot of the kinds of a cache.
type registry struct {
	stores map[schema.GroupKind]*Store
	order  []*Store
	left   map[schema.GroupKind]time.Time // when a kind was last removed
}

// copy returns a registry that can be changed without changing this one.
func (r *registry) copy() *registry {
	copied := &registry{map[schema.GroupKind]*Store{}, slices.Clone(r.order), map[schema.GroupKind]time.Time{}}
	maps.Copy(copied.stores, r.stores)
	maps.Copy(copied.left, r.left)
	return copied
}

// Add adds a kind, with its indexes. If the cache has the kind already, Add returns its store, and
// adds no indexes. A kind that is added again, after Remove, begins anew: events that were received
// before Remove, and are still in flight, do not reach it. Add may be called at any time, from any
// goroutine.
func (c *Cache) Add(kind schema.GroupKind, indexers ...Indexer) *Store {
	return c.add(kind, false, indexers)
}

// AddOptional adds a kind that is watched only at times: see [Store.SetOptional]. Otherwise it
// behaves as Add.
func (c *Cache) AddOptional(kind schema.GroupKind, indexers ...Indexer) *Store {
	return c.add(kind, true, indexers)
}

func (c *Cache) add(kind schema.GroupKind, optional bool, indexers []Indexer) *Store {
	c.registering.Lock()
	defer c.registering.Unlock()
	now := c.registry.Load()
	if store, known := now.stores[kind]; known {
		return store
	}
	var store *Store
	store = newStore(kind, indexers, c, func(latency time.Duration) {
		if c.onEcho != nil && c.Store(kind) == store {
			c.onEcho(kind, latency)
		}
	})
	store.mutations, store.since = c.mutations, now.left[kind]
	store.optional.Store(optional)
	changed := now.copy()
	changed.stores[kind] = store
	changed.order = append(changed.order, store)
	c.registry.Store(changed)
	c.sync.changed()
	return store
}

// Remove removes a kind, and does nothing if the cache does not have it. From then on, events of
// the kind are dropped, and the kind counts for no level. Call Remove when the sources of the kind
// have returned. Readers that still hold the store may read it: it stays as it is. Remove may be
// called at any time, from any goroutine.
func (c *Cache) Remove(kind schema.GroupKind) {
	c.registering.Lock()
	defer c.registering.Unlock()
	now := c.registry.Load()
	store := now.stores[kind]
	if store == nil {
		return
	}
	changed := now.copy()
	delete(changed.stores, kind)
	changed.order = slices.DeleteFunc(changed.order, func(known *Store) bool { return known == store })
	changed.left[kind] = time.Now()
	c.registry.Store(changed)
	c.mutations.forget(kind)
	c.sync.changed()
}

// Store returns the store of a kind, or nil.
func (c *Cache) Store(kind schema.GroupKind) *Store { return c.registry.Load().stores[kind] }

// Stores returns every store, in the order of adding.
func (c *Cache) Stores() []*Store { return c.registry.Load().order }
