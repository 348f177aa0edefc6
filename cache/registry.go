package cache

import (
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// registry is the kinds of a cache at one time. Nothing changes it.
type registry struct {
	stores map[schema.GroupKind]*Store
	order  []*Store
	left   map[schema.GroupKind]time.Time // when a kind was removed last
}

// copy is a registry that can be changed without changing this one.
func (r *registry) copy() *registry {
	copied := &registry{map[schema.GroupKind]*Store{}, slices.Clone(r.order), map[schema.GroupKind]time.Time{}}
	maps.Copy(copied.stores, r.stores)
	maps.Copy(copied.left, r.left)
	return copied
}

// Add adds a kind, with its indexes, or returns the store that it has already; then
// indexes are not added. A kind that is added again, after Remove, begins anew: what was
// received before Remove, and is still on its way, is not of it. Add may be called at any
// time, from any goroutine.
func (c *Cache) Add(kind schema.GroupKind, indexers ...Indexer) *Store {
	return c.add(kind, false, indexers)
}

// AddOptional is as Add, for a kind that is watched now and then: see [Store.SetOptional].
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

// Remove removes a kind: events of it are dropped from then on, and it counts for no level
// any more. It is called when the sources of the kind have returned. Who still holds the
// store may read it: it stays as it is. Of a kind that there is not, Remove does nothing. It
// may be called at any time, from any goroutine.
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

// Store is the store of a kind, or nil.
func (c *Cache) Store(kind schema.GroupKind) *Store { return c.registry.Load().stores[kind] }

// Stores is every store, in the order of adding.
func (c *Cache) Stores() []*Store { return c.registry.Load().order }
