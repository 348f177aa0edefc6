package controller

import (
	"context"
	"fmt"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bellerophon-io/bellerophon/cache"
	"github.com/bellerophon-io/bellerophon/streams"
)

// demandLinger is how long the watch of a kind lasts after the kind is no longer wanted. A new list
// may cost more than keeping the watch for a while.
const demandLinger = time.Minute

// demand is the demand for a kind that is watched on demand.
type demand struct {
	claims    claims
	restricts bool // the first controller to name the kind named it with OnDemand

	// The fields below are protected by membership.changing.
	named int       // controllers that name the kind with OnDemand
	met   bool      // the demand is one of the users of the watch
	since time.Time // when a demand that is met was found to be no longer wanted; zero while it is wanted
}

// claims counts the claims of a kind.
type claims struct {
	mu    sync.Mutex
	held  int // claims that were not released
	epoch int // grows when all claims end because no controller names the kind any longer
}

// wanted reports whether the kind is claimed.
func (c *claims) wanted() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.held > 0
}

// add adds a claim, and returns the epoch in which it counts.
func (c *claims) add() (epoch int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.held++
	return c.epoch
}

// remove removes a claim of an epoch.
func (c *claims) remove(epoch int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if epoch == c.epoch {
		c.held--
	}
}

// end ends all claims.
func (c *claims) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.held = 0
	c.epoch++
}

// OnDemand restricts the watch of a kind to the times when a [Claim] is held. It suits kinds that are
// needed now and then, such as pods while an application does not get ready. It is an option of [Owns]
// and [Watches].
//
// While the kind is not watched, reads find none of its objects. A controller does not wait for the
// kind at its start. The kind does not count for the level of sync before it is [cache.Current].
func OnDemand() InputOption { return inputOption(func(i *input) { i.onDemand = true }) }

// Claim asks for a kind that controllers watch [OnDemand]. The watch begins with the first claim, and
// ends a minute after the last one was released. Its methods may be called from any goroutine, and do not
// wait. Create it with [NewClaim].
type Claim struct {
	manager  *Manager
	of       *watched
	epoch    int
	released atomic.Bool
}

// NewClaim creates a claim on the kind of T. When the watch begins, every object is a change, as at a
// start, and makes requests by the rules of the controllers. NewClaim fails if no controller watches the
// kind. When the last controller that names the kind with OnDemand is removed, all claims end.
func NewClaim[T streams.Object](c *Client, options ...ReadOption) (*Claim, error) {
	wanted := reading{}.applied(options)
	err := wanted.ofOne()
	var found *form
	if err == nil {
		found, err = c.cachedForm(reflect.TypeFor[T](), wanted.kind)
	}
	if err == nil && found.watched == nil {
		err = fmt.Errorf("%v is not watched; name it in Owns or Watches, with OnDemand", found.as.GroupKind())
	}
	if err != nil {
		return nil, fmt.Errorf("cannot claim a kind: %w", err)
	}
	made := &Claim{manager: c.manager, of: found.watched, epoch: found.watched.demand.claims.add()}
	c.manager.notifyDemand()
	return made, nil
}

// Current reports whether the kind is watched, and the cache has all its objects: see [cache.Current].
func (c *Claim) Current() bool {
	store := c.of.store()
	return store != nil && store.Level() >= cache.Current
}

// Release ends the claim. Further calls do nothing.
func (c *Claim) Release() {
	if !c.released.Swap(true) {
		c.of.demand.claims.remove(c.epoch)
		c.manager.notifyDemand()
	}
}

// notifyDemand wakes followDemand.
func (m *Manager) notifyDemand() {
	select {
	case m.demanded <- struct{}{}:
	default: // A token is pending, and followDemand checks every kind.
	}
}

// followDemand starts and stops the watches of kinds on demand, until ctx ends.
func (m *Manager) followDemand(ctx context.Context) error {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		if due := m.meetDemand(time.Now()); !due.IsZero() {
			timer.Reset(time.Until(due))
		}
		select {
		case <-ctx.Done():
			return nil
		case <-m.demanded:
		case <-timer.C:
		}
	}
}

// meetDemand starts the watches that are wanted, and stops the watches that have not been wanted for
// demandLinger. It returns when the next watch is due to stop, or zero.
func (m *Manager) meetDemand(now time.Time) (due time.Time) {
	m.changing.Lock()
	defer m.changing.Unlock()
	for _, watched := range m.present.Load().watches {
		demand := &watched.demand
		switch wanted := demand.claims.wanted(); {
		case demand.named == 0 || wanted == demand.met && demand.since.IsZero():
		case wanted && demand.met:
			demand.since = time.Time{}
		case wanted:
			demand.met = true
			m.tape.watched(watched.kind.GroupKind(), false)
			if m.acquire(watched, m.cache.AddOptional) {
				m.startWatch(watched)
			}
		case demand.since.IsZero():
			demand.since = now
			due = earlier(due, now.Add(demandLinger))
		case now.Before(demand.since.Add(demandLinger)):
			due = earlier(due, demand.since.Add(demandLinger))
		default:
			m.endDemand(watched)
		}
	}
	return due
}

// endDemand releases the watch that a demand uses.
func (m *Manager) endDemand(watched *watched) {
	watched.demand.since = time.Time{}
	if watched.demand.named == 0 {
		watched.demand.claims.end()
	}
	if watched.demand.met {
		watched.demand.met = false
		m.release(watched)
		m.tape.watched(watched.kind.GroupKind(), true)
	}
}

// earlier returns the earlier of two times. A zero value of one stands for no time.
func earlier(one, other time.Time) time.Time {
	if one.IsZero() || other.Before(one) {
		return other
	}
	return one
}
