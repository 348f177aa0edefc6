package controller

import (
	"context"
	"reflect"
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
	wanted atomic.Bool

	// The fields below are protected by membership.changing.
	claims int       // controllers that name the kind with OnDemand
	met    bool      // the demand is one of the users of the watch
	since  time.Time // when a demand that is met was found to be no longer wanted; zero while it is wanted
}

// OnDemand restricts the watch of a kind to the times when [Demand] wants it. It suits kinds that are
// needed now and then, such as pods while an application does not get ready. It is an option of [Owns]
// and [Watches].
//
// While the kind is not watched, reads find none of its objects. A controller does not wait for the
// kind at its start. The kind does not count for the level of sync before it is [cache.Current].
func OnDemand() InputOption { return func(i *input) { i.onDemand = true } }

// Demand sets whether the kind of T, which controllers watch [OnDemand], is wanted from now on. All
// callers share one demand, and the last call applies. The watch begins at once, and ends a minute
// after the kind is no longer wanted. current reports whether the kind is watched and the cache has all
// its objects: see [cache.Current].
//
// When the watch begins, every object is a change, as at a start, and makes requests by the rules of
// the controllers. Demand may be called from any goroutine, and does not wait. It panics for a type
// that no controller names.
func Demand[T streams.Object](c *Client, wanted bool) (current bool) {
	kind := c.read(reflect.TypeFor[T]())
	if kind.demand.wanted.Swap(wanted) != wanted {
		c.manager.notifyDemand()
	}
	store := kind.store()
	return store != nil && store.Level() >= cache.Current
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
		switch wanted := demand.wanted.Load(); {
		case demand.claims == 0 || wanted == demand.met && demand.since.IsZero():
		case wanted && demand.met:
			demand.since = time.Time{}
		case wanted:
			demand.met = true
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
	if watched.demand.claims == 0 {
		watched.demand.wanted.Store(false)
	}
	if watched.demand.met {
		watched.demand.met = false
		m.release(watched)
	}
}

// earlier returns the earlier of two times. A zero value of one stands for no time.
func earlier(one, other time.Time) time.Time {
	if one.IsZero() || other.Before(one) {
		return other
	}
	return one
}
