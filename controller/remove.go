package controller

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/bellerophon-io/bellerophon/operators"
)

// Remove removes a controller, while others keep running. The controller gets no further requests, and
// its pending requests are dropped. Remove waits until the controller's reconciles in flight have
// ended and their results are handled. It then stops the watches that no other controller needs, and
// removes their kinds from the cache, the client and the metrics.
//
// The name may be used again when Remove has returned. Kinds that are gone do not count for the level
// of sync. Without controllers the manager keeps running, at [cache.Starting].
//
// If ctx ends first, Remove returns an error, and the removal continues in the background. Remove may
// be called from any goroutine. It must not be called from a reconcile of the controller or from a
// callback of the manager's options, because it would wait for them.
func (m *Manager) Remove(ctx context.Context, name string) error {
	if request, reconciles := operators.RequestOf(ctx); reconciles && request.Controller == name {
		return fmt.Errorf("removing controller %q: its own reconcile would wait for itself; call Remove from elsewhere", name)
	}
	stoodBy, err := m.endStandby(ctx, name)
	if err != nil {
		return fmt.Errorf("removing controller %q: %w", name, err)
	}
	if stoodBy && m.present.Load().members[name] == nil {
		return nil
	}
	return m.removeMember(ctx, name, stoodBy)
}

// removeMember removes a controller, and waits until that is done. With join, it also waits for a removal
// that has begun already.
func (m *Manager) removeMember(ctx context.Context, name string, join bool) error {
	leaving, err := m.dismiss(name)
	if err != nil && !(join && errors.Is(err, errBeingRemoved)) {
		return fmt.Errorf("removing controller %q: %w", name, err)
	}
	select {
	case <-leaving.gone:
	case <-ctx.Done():
		return fmt.Errorf("removing controller %q: %d of its reconciles are in flight; the removal completes when they have ended: %w",
			name, leaving.attempts.inFlight(), context.Cause(ctx))
	}
	if leaving.err != nil {
		return fmt.Errorf("removing controller %q: %w", name, leaving.err)
	}
	return nil
}

var errBeingRemoved = errors.New("it is being removed already")

// dismiss prevents further attempts of a controller, and forgets the controller when its reconciles in
// flight have ended.
func (m *Manager) dismiss(name string) (*member, error) {
	m.changing.Lock()
	defer m.changing.Unlock()
	members := m.present.Load().members
	leaving := members[name]
	switch {
	case leaving == nil:
		return nil, fmt.Errorf("there is no such controller; there are: %s", strings.Join(slices.Sorted(maps.Keys(members)), ", "))
	case leaving.leaving:
		return leaving, errBeingRemoved
	}
	leaving.leave()
	leaving.installing.Lock()
	leaving.leaving = true
	m.rules.Remove(name)
	m.controllers.Remove(name)
	leaving.installing.Unlock()
	idle := leaving.attempts.close()
	m.cache.MarkActive() // TrackQuiet has to check again what the pipeline holds.
	if m.group == nil {
		m.forget(leaving)
		close(leaving.gone)
		return leaving, nil
	}
	m.group.Go("removal of controller "+name, func(ctx context.Context) error {
		defer close(leaving.gone)
		select {
		case <-idle:
			m.changing.Lock()
			defer m.changing.Unlock()
			m.forget(leaving)
		case <-ctx.Done():
			leaving.err = errors.New("the manager has ended")
		}
		return nil
	})
	return leaving, nil
}
