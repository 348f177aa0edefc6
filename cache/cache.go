package cache

import (
	"log/slog"
	"time"

	"github.com/bellerophon-io/bellerophon/streams"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Cache holds a [Store] for each kind, and the level of sync of them all. Make it with
// [New] and add its kinds before it is used.
type Cache struct {
	log       *slog.Logger
	stores    map[schema.GroupKind]*Store
	order     []*Store
	loop      *Loop
	sync      levels
	mutations *mutations // nil unless they are to be detected
	onEcho    func(kind schema.GroupKind, latency time.Duration)
}

// New makes an empty cache. A nil logger is slog's default.
func New(loop LoopOptions, log *slog.Logger) (*Cache, error) {
	measured, err := newLoop(loop)
	if err != nil {
		return nil, err
	}
	if log == nil {
		log = slog.Default()
	}
	return &Cache{log: log, stores: map[schema.GroupKind]*Store{}, loop: measured}, nil
}

// Add adds a kind, with its indexes, or returns the store that it has already; then
// indexes are not added. Call it before the cache is used.
func (c *Cache) Add(kind schema.GroupKind, indexers ...Indexer) *Store {
	if store, known := c.stores[kind]; known {
		return store
	}
	store := newStore(kind, indexers, c.log, c.sync.changed, func(latency time.Duration) {
		if c.onEcho != nil {
			c.onEcho(kind, latency)
		}
	})
	store.mutations = c.mutations
	c.stores[kind] = store
	c.order = append(c.order, store)
	return store
}

// OnEcho has a function called for each own write that the watch has passed, with the time
// from the API server's answer to then; 0 if the watch was faster. It is called from many
// goroutines and must be fast. Call OnEcho before the cache is used.
func (c *Cache) OnEcho(call func(kind schema.GroupKind, latency time.Duration)) { c.onEcho = call }

// Store is the store of a kind, or nil.
func (c *Cache) Store(kind schema.GroupKind) *Store { return c.stores[kind] }

// Stores is every store, in the order of adding.
func (c *Cache) Stores() []*Store { return c.order }

// Loop measures the loop duration.
func (c *Cache) Loop() *Loop { return c.loop }

// Apply takes in events and returns what they changed, which readers can see by then.
// Events of kinds that were not added are dropped. One goroutine calls it.
func (c *Cache) Apply(events []streams.Event) []streams.Change {
	for i := range events {
		if events[i].Type != streams.Bookmark { // Which tells of nothing new.
			c.Stir()
			break
		}
	}
	made := batch{
		causes:  causes{make([]streams.Cause, 0, len(events))},
		changes: streams.NewBatch[streams.Change](len(events)),
	}
	touched := make([]*Store, 0, 4)
	var last *Store
	for i := range events {
		event := &events[i]
		store := last
		if store == nil || store.kind != event.Key.GroupKind {
			if store = c.stores[event.Key.GroupKind]; store == nil {
				continue
			}
			last = store
			touched = addOnce(touched, store)
		}
		store.apply(event, &made)
	}
	now := time.Now()
	for _, store := range touched {
		store.publish()
		for _, since := range store.settleWrites(&made) {
			if !since.IsZero() {
				c.loop.Observe(now.Sub(since))
			}
		}
	}
	c.sync.changed()
	return made.changes
}

func addOnce(stores []*Store, store *Store) []*Store {
	for _, known := range stores {
		if known == store {
			return stores
		}
	}
	return append(stores, store)
}

// Through applies a stream of events and is the stream of the changes. One observation
// at a time may be active: the cache has one writer.
func (c *Cache) Through(events streams.Stream[streams.Event]) streams.Stream[streams.Change] {
	return streams.MapBatches(events, func(batch []streams.Event) ([]streams.Change, error) {
		changes := c.Apply(batch)
		streams.Recycle(batch)
		return changes, nil
	})
}
