package operators

import (
	"fmt"
	"maps"
	"sync"
	"sync/atomic"

	lru "github.com/hashicorp/golang-lru/v2"
)

// Controllers holds the controllers that [Reconcile] runs, by name. It may be changed at any time,
// from any goroutine. Create it with [NewControllers].
type Controllers struct {
	mu          sync.Mutex // for writers; readers load published
	published   atomic.Pointer[roster]
	subscribers map[chan struct{}]struct{} // each gets a token after a change
}

// removedRemembered bounds the names of removed controllers that are remembered.
const removedRemembered = 1024

// roster is a snapshot of Controllers. It is immutable, except for removed: names are added to it
// before the snapshot without them is published.
type roster struct {
	controllers map[string]*Controller       // Another pointer is another controller.
	removed     *lru.Cache[string, struct{}] // names that were removed, and may be set again; shared by all snapshots
	shut        map[string]bool              // controllers whose gate has not opened yet: see Controller.Held
	forgotten   int                          // number of calls of ForgetEchoes
}

// NewControllers creates Controllers that hold the given ones.
func NewControllers(controllers map[string]Controller) *Controllers {
	made := &Controllers{subscribers: map[chan struct{}]struct{}{}}
	made.published.Store(emptyRoster())
	for name, controller := range controllers {
		made.Set(name, controller)
	}
	return made
}

// emptyRoster creates a roster without controllers.
func emptyRoster() *roster {
	removed, err := lru.New[string, struct{}](removedRemembered)
	if err != nil {
		panic(err) // lru.New fails only for a size below 1.
	}
	return &roster{controllers: map[string]*Controller{}, removed: removed, shut: map[string]bool{}}
}

// Set sets the controller of a name. A controller that has the name already is removed: see Remove.
// Attempts of both controllers for the same object do not overlap. Set panics if the controller does
// not validate.
func (c *Controllers) Set(name string, controller Controller) {
	controller, err := controller.withDefaults()
	if err != nil {
		panic(fmt.Errorf("controller %q: %w", name, err))
	}
	if controller.Stats == nil {
		controller.Stats = &StageStats{}
	}
	c.change(func(changed *roster) {
		changed.controllers[name] = &controller
		if delete(changed.shut, name); controller.Held {
			changed.shut[name] = true
		}
	})
}

// Open lets the attempts of a controller start that was set with Held. While the gate of all
// controllers is shut, the attempts still wait for that: see ReconcileOptions.Start. Open does
// nothing for a name without a controller, or for a controller whose gate is open.
func (c *Controllers) Open(name string) {
	c.change(func(changed *roster) { delete(changed.shut, name) })
}

// ForgetEchoes forgets the own writes whose events have not come yet. Call it when the server's
// versions went back, before the requests that follow: a version may then belong to another
// client's write. See [Controller].IgnoreEchoes.
func (c *Controllers) ForgetEchoes() {
	c.change(func(changed *roster) { changed.forgotten++ })
}

// Remove removes a controller. It does nothing if no controller has the name. Requests that wait
// for the controller are dropped, and so are later ones.
//
// An attempt that is in flight or about to start goes on. Remove does not wait for it. Its result
// is emitted, and it is not repeated.
//
// The last 1024 removed names are remembered. A request for a controller that was removed earlier
// fails, as does a request for a name that was never set.
func (c *Controllers) Remove(name string) {
	c.change(func(changed *roster) {
		if changed.controllers[name] != nil {
			delete(changed.controllers, name)
			delete(changed.shut, name)
			changed.removed.Add(name, struct{}{})
		}
	})
}

// change publishes a changed copy and notifies the subscribers.
func (c *Controllers) change(change func(*roster)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.published.Load()
	changed := &roster{maps.Clone(before.controllers), before.removed, maps.Clone(before.shut), before.forgotten}
	change(changed)
	c.published.Store(changed)
	for wake := range c.subscribers {
		select {
		case wake <- struct{}{}:
		default: // The channel holds a token already.
		}
	}
}

// subscribe makes a channel get a token after each change, until the caller calls unsubscribe.
func (c *Controllers) subscribe(wake chan struct{}) (unsubscribe func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.subscribers[wake] = struct{}{}
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.subscribers, wake)
	}
}
