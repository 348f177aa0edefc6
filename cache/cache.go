package cache

import (
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bellerophon-io/bellerophon/streams"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Cache holds a [Store] for each kind, and the level of sync of them all. Make it with
// [New]. Kinds may come and go while it is used.
type Cache struct {
	log         *slog.Logger
	registering sync.Mutex // of who changes registry
	registry    atomic.Pointer[registry]
	loop        *Loop
	sync        levels
	work        Work          // nil for none
	bound       time.Duration // see SetMaxStaleness
	mutations   *mutations    // nil unless they are to be detected
	onEcho      func(kind schema.GroupKind, latency time.Duration)
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
	made := &Cache{log: log, loop: measured}
	made.registry.Store(&registry{})
	return made, nil
}

// OnEcho has a function called for each own write that the watch has passed, with the time
// from the API server's answer to then; 0 if the watch was faster. It is called from many
// goroutines and must be fast. Call OnEcho before the cache is used.
func (c *Cache) OnEcho(call func(kind schema.GroupKind, latency time.Duration)) { c.onEcho = call }

// SetMaxStaleness bounds how long ago the server may have confirmed a version for it to count
// as current: after that, the level of its kind is [Listed] until the server confirms one anew.
// 0, the default, is no bound. Call it before the cache is used.
func (c *Cache) SetMaxStaleness(bound time.Duration) { c.bound = bound }

// Loop measures the loop duration.
func (c *Cache) Loop() *Loop { return c.loop }

// Apply takes in events and returns what they changed, which readers can see by then. Events
// of kinds that are not there are dropped. What changes nothing does not end the calm. One
// goroutine calls it.
func (c *Cache) Apply(events []streams.Event) []streams.Change {
	made := batch{
		causes:  causes{make([]streams.Cause, 0, len(events))},
		changes: streams.NewBatch[streams.Change](len(events)),
		stir:    c.MarkActive,
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
			touched = addOnce(touched, store)
		}
		if !store.since.IsZero() && event.Received.Before(store.since) {
			continue
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

func addOnce(stores []*Store, store *Store) []*Store {
	for _, known := range stores {
		if known == store {
			return stores
		}
	}
	return append(stores, store)
}
