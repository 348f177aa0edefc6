package controller

import (
	"context"
	"slices"
	"time"

	"github.com/bellerophon-io/bellerophon/cache"
	"github.com/bellerophon-io/bellerophon/controller/shards"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/operators"
	"k8s.io/apimachinery/pkg/types"
)

// locateAgain is the time between requests for the scope of a kind that the server does not serve.
const locateAgain = 10 * time.Second

// sharing returns a reconciler that leaves objects alone which do not belong to the share, or are not read
// yet. When they are, the controller gets requests for them: see follow.
func (s *share) sharing(of *member, reconcile operators.Reconciler) operators.Reconciler {
	return func(ctx context.Context, request operators.Request) (time.Duration, error) {
		slot := s.slotOf(request.NamespacedName)
		ctx, end, owned := s.member.Begin(ctx, slot)
		defer end()
		if !owned || !s.isReady(of, slot) {
			return 0, nil
		}
		return reconcile(ctx, request)
	}
}

// isReady reports whether the objects of a slot were read since the slot came.
func (s *share) isReady(of *member, slot int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return of.shared.ready[slot] != 0 && of.shared.ready[slot] == s.since[slot]
}

// locating finds out what belongs to the share of a controller, in a goroutine of the group. Until then, the
// watches that only this controller needs wait. The caller holds m.changing.
func (s *share) locating(group *lifecycle.Group, of *member) {
	if s == nil || of.shared == nil {
		return
	}
	ctx, cancel := context.WithCancel(group.Context())
	leave := of.leave
	of.leave = func() { leave(); cancel() }
	of.shared.ctx = ctx
	group.Go("scope of "+of.name, func(context.Context) error { s.locate(ctx, of); return nil })
}

// follow makes the controller reconcile the objects of each slot that the replica takes over, once they are
// read. It returns when the controller is removed or the group ends.
func (s *share) follow(group *lifecycle.Group, of *member) {
	if s == nil || of.shared == nil {
		return
	}
	ctx := of.shared.ctx
	group.Go("share of "+of.name, func(ending context.Context) error {
		for {
			fresh, since, changed := s.fresh(of)
			s.letGo(ctx, of)
			s.release(ending, of)
			if fresh == (shards.Set{}) {
				select {
				case <-changed:
					continue
				case <-ctx.Done():
					return nil
				}
			}
			if s.manager.cache.Wait(ctx, cache.Current, kindsOf(of.watches)...) != nil {
				return nil
			}
			s.take(ctx, of, fresh, since)
		}
	})
}

// letGo requests the unfinished objects of slots that are no longer owned. The attempts do nothing, so the
// objects count as finished here: another replica reconciles them.
func (s *share) letGo(ctx context.Context, of *member) {
	s.mu.Lock()
	owned := s.owned
	s.mu.Unlock()
	var requests []operators.Request
	for _, object := range s.manager.pipeline.UnfinishedOf(of.name) {
		if !owned.Has(s.slotOf(object)) {
			requests = append(requests, operators.Request{Controller: of.name, NamespacedName: object, Received: time.Now()})
		}
	}
	if len(requests) > 0 {
		s.manager.pipeline.Enqueue(ctx, requests...)
	}
}

// release calls the function of OnRelease if slots are gone. A slot goes when the last reconcile in it has
// ended. If it comes again, reconciles wait for take, which is called after this. A replica that ends gives all
// slots up once the context of the group has ended. That is no news for the operator, so this context is asked
// after the slots. The controller's own context ends later than it.
func (s *share) release(ending context.Context, of *member) {
	s.mu.Lock()
	kept := s.kept
	s.mu.Unlock()
	if ending.Err() != nil {
		return
	}
	gone := of.shared.held.Without(kept)
	of.shared.held = kept
	if of.shared.release != nil && gone != (shards.Set{}) {
		of.shared.release(func(object types.NamespacedName) bool { return kept.Has(s.slotOf(object)) })
	}
}

// fresh returns the owned slots whose objects the controller has no requests for so far. since has the numbers
// with which all slots came. changed is closed when the result may be another one.
func (s *share) fresh(of *member) (fresh shards.Set, since [shards.Slots]int64, changed <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var ready shards.Set
	for slot := range s.owned.All() {
		if of.shared.ready[slot] == s.since[slot] {
			ready[slot/64] |= 1 << (slot % 64)
		}
	}
	if of.shared.located {
		fresh = s.owned.Without(ready)
	}
	return fresh, s.since, s.changed
}

// take lets the controller reconcile the objects of slots, and requests the objects that exist.
func (s *share) take(ctx context.Context, of *member, slots shards.Set, since [shards.Slots]int64) {
	s.mu.Lock()
	for slot := range slots.All() {
		of.shared.ready[slot] = since[slot]
	}
	s.mu.Unlock()
	// After ready is set: what changes from here on makes requests by the rules.
	requests := slices.DeleteFunc(s.manager.requestsFor(ctx, of, existing(of)), func(request operators.Request) bool {
		return !slots.Has(s.slotOf(request.NamespacedName))
	})
	if len(requests) > 0 {
		s.manager.pipeline.Enqueue(ctx, requests...)
	}
}

// isComplete reports whether the controller has got requests for everything that the replica has taken over.
func (s *share) isComplete(of *member) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for slot := range s.kept.All() {
		if of.shared.ready[slot] != s.since[slot] {
			return false
		}
	}
	return true
}

// locate finds out whether the reconciled kind has namespaces, because the key of an owner depends on it.
func (s *share) locate(ctx context.Context, of *member) {
	timer := time.NewTimer(locateAgain)
	defer timer.Stop()
	reconciled := of.shared.reconciled
	for {
		assumed := reconciled.kind.Namespaced()
		err := reconciled.kind.Locate(ctx, reconciled.client)
		s.mu.Lock()
		if of.shared.located && reconciled.kind.Namespaced() != assumed { // The assumption has dropped objects.
			s.number++
			for i := range of.shared.rules {
				of.shared.rules[i].from = s.number
			}
		}
		of.shared.located = true // Otherwise no list would show that the server refuses the kind.
		s.notify()
		s.mu.Unlock()
		s.reselect()
		if err == nil {
			return
		}
		timer.Reset(locateAgain)
		select {
		case <-timer.C:
		case <-ctx.Done():
			return
		}
	}
}
