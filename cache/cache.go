package cache

import (
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bellerophon-io/bellerophon/streams"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Cache holds a [Store] for each kind, and the level of sync of all kinds. Create it with [New].
// Kinds may be added and removed while it is used.
type Cache struct {
	log         *slog.Logger
	registering sync.Mutex // held while registry changes
	registry    atomic.Pointer[registry]
	loop        *Loop
	sync        levels
	work        Work          // nil for none
	bound       time.Duration // see SetMaxStaleness
	mutations   *mutations    // nil unless mutations are detected
	onEcho      func(kind schema.GroupKind, latency time.Duration)
}

// New creates an empty cache. A nil logger stands for slog's default. New returns an error for a
// loop option that is out of its range.
func New(loop LoopOptions, log *slog.Logger) (*Cache, error) {
	measured, err := newLoop(loop)
	if err != nil {
		return nil, err
	}
	if log == nil {
		log = slog.Default()
	}
	made := &Cache{log: log, loop: measured}
	made.registry.Store(&registry{})
	return made, nil
}

// OnEcho sets a function that is called for each own write once the watch has passed it. latency is
// the time since the API server's answer, or 0 if the watch was faster. The function is called from
// many goroutines and must be fast. Call OnEcho before the cache is used.
func (c *Cache) OnEcho(call func(kind schema.GroupKind, latency time.Duration)) { c.onEcho = call }

// SetMaxStaleness sets how long a version counts as current after the server has confirmed it. After
// that, the level of the kind is [Listed] until the server confirms a version again. 0, the default,
// is no bound. Call it before the cache is used.
func (c *Cache) SetMaxStaleness(bound time.Duration) { c.bound = bound }

// Loop returns the measurement of the loop duration.
func (c *Cache) Loop() *Loop { return c.loop }

// Apply applies events and returns what they changed. Readers see the changes before Apply returns.
// Events of kinds that the cache does not have are dropped. An event that changes nothing leaves the
// quiet period alone. Only one goroutine at a time may call Apply.
func (c *Cache) Apply(events []streams.Event) []streams.Change {
	made := batch{
		causes:  causes{make([]streams.Cause, 0, len(events))},
		changes: streams.NewBatch[streams.Change](len(events)),
		touch:   c.MarkActive,
	}
	touched := make([]*Store, 0, 4)
	stores := c.registry.Load().stores
	var last *Store
	for i := range events {
		event := &events[i]
		store := last
		if store == nil || store.kind != event.Key.GroupKind {
			if store = stores[event.Key.GroupKind]; store == nil {
				continue
			}
			last = store
			if touched = addOnce(touched, store); store.applied != store.selection.Load() {
				store.dropUnselected(&made)
			}
		}
		if !store.since.IsZero() && event.Received.Before(store.since) {
			continue // It was received before the kind was removed and added again.
		}
		store.apply(event, &made)
	}
	for _, store := range touched {
		store.publish()
		store.settleWrites(&made)
	}
	c.sync.changed()
	return made.changes
}

// addOnce appends a store, unless stores has it already.
func addOnce(stores []*Store, store *Store) []*Store {
	for _, known := range stores {
		if known == store {
			return stores
		}
	}
	return append(stores, store)
}
