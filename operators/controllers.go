package operators

import (
	"maps"
	"sync"
	"sync/atomic"

	lru "github.com/hashicorp/golang-lru/v2"
)

// Controllers is what [Reconcile] runs, by name. It may be changed at any time, from any
// goroutine. Make it with [NewControllers].
type Controllers struct {
	mu        sync.Mutex // of who changes it
	published atomic.Pointer[roster]
	followers map[chan struct{}]struct{} // each gets a token when there is something new
}

// removedRemembered bounds the names of removed controllers that are remembered.
const removedRemembered = 1024

// roster is one state of controllers. Nothing changes it but for removed, to which names are
// added before the state without them is published.
type roster struct {
	controllers map[string]*Controller       // Another pointer is another controller.
	removed     *lru.Cache[string, struct{}] // names that were removed, and may be set again; shared by all states
	shut        map[string]bool              // those whose gate has not opened yet: see Controller.Held
	forgotten   int                          // how often ForgetEchoes was called
}

// NewControllers makes controllers.
func NewControllers(controllers map[string]Controller) *Controllers {
	made := &Controllers{followers: map[chan struct{}]struct{}{}}
	made.published.Store(emptyRoster())
	for name, controller := range controllers {
		made.Set(name, controller)
	}
	return made
}

func emptyRoster() *roster {
	removed, err := lru.New[string, struct{}](removedRemembered)
	if err != nil {
		panic(err) // Only for a size below 1.
	}
	return &roster{controllers: map[string]*Controller{}, removed: removed, shut: map[string]bool{}}
}

// Set gives a name to a controller. One that has the name already is removed: see Remove.
// Attempts of both for the same object do not overlap.
func (c *Controllers) Set(name string, controller Controller) {
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

// Open lets the attempts of a controller start that was set with Held. Where the gate of all
// controllers is shut, they still wait for that: see ReconcileOptions.Start. For a name
// without a controller, or one whose gate is open, Open does nothing.
func (c *Controllers) Open(name string) {
	c.change(func(changed *roster) { delete(changed.shut, name) })
}

// ForgetEchoes forgets the own writes whose events have not come yet. Call it when the server's
// versions went back, before the requests that follow: a version may then be that of somebody
// else's write. See [Controller].IgnoreEchoes.
func (c *Controllers) ForgetEchoes() {
	c.change(func(changed *roster) { changed.forgotten++ })
}

// Remove removes a controller. What waits for it is dropped, and so are requests for it from
// then on, but for an attempt that is about to start, or in flight: that is not waited for,
// its result goes out, and it is not repeated. Of a name that there is not, it does nothing.
// The last 1024 names that were removed are remembered; a request for one that was removed
// before fails, as one for a name that there never was.
func (c *Controllers) Remove(name string) {
	c.change(func(changed *roster) {
		if changed.controllers[name] != nil {
			delete(changed.controllers, name)
			delete(changed.shut, name)
			changed.removed.Add(name, struct{}{})
		}
	})
}

// change publishes a copy that is changed, and tells those who follow.
func (c *Controllers) change(change func(*roster)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.published.Load()
	changed := &roster{maps.Clone(before.controllers), before.removed, maps.Clone(before.shut), before.forgotten}
	change(changed)
	c.published.Store(changed)
	for news := range c.followers {
		select {
		case news <- struct{}{}:
		default: // It has one already.
		}
	}
}

// follow has a channel get a token after each change, until the caller calls unfollow.
func (c *Controllers) follow(news chan struct{}) (unfollow func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.followers[news] = struct{}{}
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.followers, news)
	}
}
