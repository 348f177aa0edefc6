package controller

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/bellerophon-io/bellerophon/cache"
	"github.com/bellerophon-io/bellerophon/operators"
	"github.com/bellerophon-io/bellerophon/streams"
)

// Add adds a controller, before Run or while the manager runs. The name labels its metrics and logs,
// and is free again when [Manager.Remove] has returned. Add may be called from any goroutine. It waits
// only for another Add, or for the end of a Remove.
//
// Controllers share watches: a watch starts with the first controller that needs it. While the manager
// runs, the controller joins when all its kinds are [cache.Current]. It then gets requests for all
// existing objects, as at a start of the manager. Until the first list of a kind that was not watched
// before, the level of sync is [cache.Starting]. Other controllers continue meanwhile.
func (m *Manager) Add(name string, reconciler operators.Reconciler, options ...Option) error {
	definition := &definition{}
	for i, option := range options {
		if option == nil {
			return fmt.Errorf("adding controller %q: option %d is nil; leave it out", name, i+1)
		}
		option.define(definition)
	}
	m.changing.Lock()
	defer m.changing.Unlock()
	var err error
	switch {
	case m.standbys.find(name) != nil:
		err = errNameTaken
	case definition.ifServed:
		err = m.standBy(name, reconciler, definition)
	default:
		err = m.add(name, reconciler, definition)
	}
	if err != nil {
		return fmt.Errorf("adding controller %q: %w", name, err)
	}
	return nil
}

// add adds a controller. The caller holds m.changing.
func (m *Manager) add(name string, reconciler operators.Reconciler, definition *definition) error {
	added, forms, err := m.prepare(name, reconciler, definition)
	if err != nil {
		return err
	}
	m.register(added, forms)
	if added.elected {
		added.controller.Held = true // The gate opens when this replica leads and the kinds are current.
		added.joins.Store(true)
		if m.group != nil {
			m.followEpochs(m.group, added)
		}
		return nil
	}
	if m.group == nil {
		added.controller.Held = true // Run opens the gate when its kinds are current.
		m.install(added)
		return nil
	}
	ctx, cancel := context.WithCancel(m.group.Context())
	added.leave = cancel
	added.joins.Store(true)
	m.cache.MarkActive() // The cache is not Settled before the controller has joined.
	group := m.group
	m.share.locating(group, added)
	group.Go("controller "+name, func(context.Context) error {
		returned := false
		defer func() {
			if !returned { // A map function has called runtime.Goexit, and requests are lost.
				group.Go("controller "+name, func(context.Context) error { return streams.ErrExited })
			}
		}()
		defer cancel()
		if m.join(ctx, added) {
			m.share.follow(group, added)
			m.followFeeds(ctx, added)
		}
		returned = true
		return nil
	})
	return nil
}

// install lets a controller get requests. It sets the controller before it adds the rules, because a
// request for a controller that is not set fails.
func (m *Manager) install(added *member) {
	m.controllers.Set(added.name, added.controller)
	m.rules.Add(added.rules...)
}

// join installs a controller when its kinds are current, and requests all existing objects. It returns
// false if the controller is removed or the manager ends.
func (m *Manager) join(ctx context.Context, added *member) bool {
	joined := m.joinNow(ctx, added)
	// Not deferred: if a map function ends this goroutine, requests are lost, and the level must not rise.
	added.joins.Store(false)
	m.cache.MarkActive()
	return joined
}

func (m *Manager) joinNow(ctx context.Context, added *member) bool {
	if m.awaitCurrent(ctx, added) != nil {
		return false
	}
	// Between batches: otherwise the batch that makes the kinds current could make requests by the new rules,
	// for the same objects that are requested below.
	var present []streams.Change
	installed := false
	if !m.pipeline.RunBetweenBatches(ctx, func() {
		if installed = m.installUnlessLeaving(added); installed {
			present = existing(added)
		}
	}) || !installed {
		return false
	}
	m.request(ctx, added, present)
	return ctx.Err() == nil
}

// request adds the requests of a controller for changes.
func (m *Manager) request(ctx context.Context, added *member, changes []streams.Change) {
	if requests := m.requestsFor(ctx, added, changes); len(requests) > 0 {
		m.pipeline.Enqueue(ctx, requests...)
	}
}

// requestsFor returns the requests of a controller for changes, by its rules. It runs the rules outside of the
// pipeline, and reports the failures of rules.
func (m *Manager) requestsFor(ctx context.Context, of *member, changes []streams.Change) []operators.Request {
	m.mapping.Add(1)
	requests, errs := streams.Collect(ctx, operators.Trigger(streams.Of(changes...), m.rules.ForController(of.name)))
	// Not deferred: if a map function ends this goroutine, requests are lost, and the level must not rise.
	m.mapping.Add(-1)
	m.cache.Recheck() // The controller may have been removed meanwhile, and nothing else follows.
	for _, err := range errs {
		m.pipeline.ReportError(ctx, err)
	}
	return requests
}

// awaitCurrent waits until the kinds of a controller are current.
func (m *Manager) awaitCurrent(ctx context.Context, of *member) error {
	if len(of.watches) == 0 {
		return nil // Without kinds, Wait would wait for the kinds of other controllers.
	}
	return m.cache.Wait(ctx, cache.Current, kindsOf(of.watches)...)
}

// installUnlessLeaving installs a controller, and returns false if it is being removed. It does not lock
// changing, which a call to the API server may hold for long.
func (m *Manager) installUnlessLeaving(added *member) bool {
	added.installing.Lock()
	defer added.installing.Unlock()
	if !added.leaving {
		m.install(added)
	}
	return !added.leaving
}

// existing returns the objects in the cache that concern a controller, as changes.
func existing(added *member) (changes []streams.Change) {
	now := time.Now()
	for _, watched := range slices.Concat(added.watches, added.optional) {
		store := watched.store()
		if store == nil {
			continue // The kind is watched on demand. When its watch begins, its objects make requests by the rules.
		}
		for _, object := range store.List("") {
			key := streams.KeyOf(watched.kind.GroupKind(), object)
			cause := streams.Cause{Type: streams.Listed, Key: key, ResourceVersion: object.GetResourceVersion(), Received: now}
			changes = append(changes, streams.Change{
				Type: streams.Added, Key: key, New: object, Causes: []streams.Cause{cause}, Received: now,
			})
		}
	}
	return changes
}
