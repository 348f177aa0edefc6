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

// Add adds a controller, before Run or while the manager runs. Its name is that of its
// metrics and logs, and is free again when [Manager.Remove] has returned. Add may be called
// from any goroutine; it waits for nothing but another Add, or the end of a Remove.
//
// What the controller watches is shared: a watch starts with the first controller that needs
// it. While the manager runs, the controller joins when all its kinds are [cache.Current]:
// then it gets requests for all objects that there are, as at a start of the manager. Until
// the first list of a kind that nobody watched before, the level of sync is
// [cache.Starting]; other controllers go on meanwhile.
func (m *Manager) Add(name string, reconciler operators.Reconciler, options ...Option) error {
	definition := &definition{}
	for _, option := range options {
		option(definition)
	}
	m.changing.Lock()
	defer m.changing.Unlock()
	added, forms, err := m.prepare(name, reconciler, definition)
	if err != nil {
		return fmt.Errorf("adding controller %q: %w", name, err)
	}
	m.enter(added, forms)
	if m.group == nil {
		added.controller.Held = true // Until Run has found its kinds current.
		m.install(added)
		return nil
	}
	ctx, cancel := context.WithCancel(m.group.Context())
	added.leave = cancel
	added.joins.Store(true)
	m.cache.MarkActive() // It is not calm before the controller has joined.
	m.group.Go("controller "+name, func(context.Context) error {
		defer cancel()
		if m.join(ctx, added) {
			m.followFeeds(ctx, added)
		}
		return nil
	})
	return nil
}

// install has a controller get requests. Requests for one that is not set yet would fail, so
// that is done first.
func (m *Manager) install(added *member) {
	m.controllers.Set(added.name, added.controller)
	m.rules.Add(added.rules...)
}

// join has a controller take part when its kinds are current. It returns false if the controller
// is removed before, or the manager ends.
func (m *Manager) join(ctx context.Context, added *member) bool {
	defer m.cache.MarkActive()
	defer added.joins.Store(false)
	if m.cache.Wait(ctx, cache.Current, kindsOf(added.watches)...) != nil {
		return false
	}
	if !m.installUnlessLeaving(added) {
		return false
	}
	// After that: what comes to the cache from now on makes requests by itself.
	requests, errs := streams.Collect(ctx, operators.Trigger(streams.Of(existing(added)...), m.rules.Of(added.name)))
	for _, err := range errs {
		m.pipeline.Fail(ctx, err)
	}
	if len(requests) > 0 {
		m.pipeline.Ask(ctx, requests...)
	}
	return ctx.Err() == nil
}

func (m *Manager) installUnlessLeaving(added *member) bool {
	m.changing.Lock()
	defer m.changing.Unlock()
	if !added.leaving {
		m.install(added)
	}
	return !added.leaving
}

// existing is what a controller finds in the cache, as changes.
func existing(added *member) (changes []streams.Change) {
	now := time.Now()
	for _, watched := range slices.Concat(added.watches, added.optional) {
		store := watched.store()
		if store == nil {
			continue // It is watched on demand, and what there is then makes requests by itself.
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
