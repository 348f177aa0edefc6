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

// Remove takes a controller away, while others run on. It gets no further requests, and what
// waits for it is dropped. Remove returns when its reconciles in flight have ended and their
// results have been told; then the watches that no other controller needs have stopped, and
// their objects have left the cache, the client and the metrics. From then on the name may be
// used again. Kinds that are gone do not count for the level of sync; without controllers
// the manager runs on, at [cache.Starting].
//
// If ctx ends before, Remove returns an error, and the removal goes on by itself. It may be
// called from any goroutine, but neither from a reconcile of the controller nor from a
// callback of the manager's options, for which it would wait.
func (m *Manager) Remove(ctx context.Context, name string) error {
	if request, reconciles := operators.RequestOf(ctx); reconciles && request.Controller == name {
		return fmt.Errorf("removing controller %q: its own reconcile would wait for itself; call Remove from elsewhere", name)
	}
	leaving, err := m.dismiss(name)
	if err != nil {
		return fmt.Errorf("removing controller %q: %w", name, err)
	}
	select {
	case <-leaving.gone:
	case <-ctx.Done():
		return fmt.Errorf("removing controller %q: %d of its reconciles are in flight; it is gone when they have ended: %w",
			name, leaving.attempts.inFlight(), context.Cause(ctx))
	}
	if leaving.err != nil {
		return fmt.Errorf("removing controller %q: %w", name, leaving.err)
	}
	return nil
}

// dismiss lets a controller do nothing any more, and has it forgotten when its reconciles in
// flight have ended.
func (m *Manager) dismiss(name string) (*member, error) {
	m.changing.Lock()
	defer m.changing.Unlock()
	members := m.present.Load().members
	leaving := members[name]
	switch {
	case leaving == nil:
		return nil, fmt.Errorf("there is none of the name; there are: %s", strings.Join(slices.Sorted(maps.Keys(members)), ", "))
	case leaving.leaving:
		return nil, errors.New("it is being removed already")
	}
	leaving.leaving = true
	leaving.leave()
	m.rules.Remove(name)
	m.controllers.Remove(name)
	idle := leaving.attempts.close()
	m.cache.MarkActive() // What it held is looked at anew.
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
