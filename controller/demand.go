package controller

import (
	"context"
	"reflect"
	"sync/atomic"
	"time"

	"github.com/bellerophon-io/bellerophon/cache"
	"github.com/bellerophon-io/bellerophon/streams"
)

// demandLinger is how long a kind is watched on when it is not wanted any more: to list it
// again may cost more than to keep it for a while.
const demandLinger = time.Minute

// demand is whether a kind is wanted that is watched on demand.
type demand struct {
	wanted atomic.Bool

	// The rest is changed under the manager's lock.
	claims int       // controllers that may want it
	met    bool      // it is one of those that need the watch
	since  time.Time // of a demand that is met, when it was found to be wanted no more; zero if it is
}

// OnDemand has a kind watched only while [Demand] says so, for what is needed now and then: pods
// while an application does not get ready, say. It is an option of [Owns] and [Watches].
// While it is not watched, nothing is found of it. A controller does not wait for it at a start,
// nor does the level of sync before it is [cache.Current].
func OnDemand() InputOption { return func(i *input) { i.onDemand = true } }

// Demand says whether the type T, which a controller watches on demand, is wanted from now on. It is
// one demand for all who read T: what was said last counts. T begins to be watched at once, and
// stops a minute after it is wanted no more. current says whether it is watched, and what is found in the cache is all that there is.
// Objects that are there then are changes as at a start, so that those are reconciled whom they
// concern. Demand may be called from any goroutine, and waits for nothing. It panics for a type
// that no controller names.
func Demand[T streams.Object](c *Client, wanted bool) (current bool) {
	kind := c.read(reflect.TypeFor[T]())
	if kind.demand.wanted.Swap(wanted) != wanted {
		c.manager.lookAtDemand()
	}
	store := kind.store()
	return store != nil && store.Level() >= cache.Current
}

func (m *Manager) lookAtDemand() {
	select {
	case m.demanded <- struct{}{}:
	default: // It looks at all anyway.
	}
}

// followDemand begins and ends watches as they are wanted.
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

// meetDemand begins what is wanted, and ends what was not for long enough. It says when there
// will be something to end.
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
			if m.hold(watched, m.cache.AddOptional) {
				m.begin(watched)
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

// endDemand ends what was begun for a demand.
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

// earlier is the earlier of two times, of which a zero one is none.
func earlier(one, other time.Time) time.Time {
	if one.IsZero() || other.Before(one) {
		return other
	}
	return one
}
