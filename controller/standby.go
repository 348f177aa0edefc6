package controller

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/operators"
	"github.com/bellerophon-io/bellerophon/sources"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
)

// IfServed makes the controller stand by while the API server does not serve one of its kinds, for example
// because a CustomResourceDefinition is not installed. The controller starts when all kinds of For, Owns
// and Watches are served; kinds that are [OnDemand] do not matter. It stops when the definition of one is
// deleted: then it gets no more requests, and the objects of the kind leave the cache.
//
// A controller that stands by counts neither for the level of sync nor for /readyz, which names its kinds;
// the metric bellerophon_controller_waits has their number. While it stands by, the manager asks at least every
// 10 s what is served. Its objects are not reconciled before sync: see [ReconcileBeforeSync].
//
// Without IfServed, a kind that is not served holds up its controllers alone, too. But such a watch keeps
// failing and is reported. If its definition is deleted later, the level falls.
func IfServed() Option { return option(func(d *definition) { d.ifServed = true }) }

// standby is a controller with IfServed. It is in Manager.standbys from Add to Remove.
type standby struct {
	name       string
	reconciler operators.Reconciler
	definition *definition
	kinds      []*watched    // to ask for; the manager has watches of its own
	missing    chan struct{} // holds a token when the server may no longer serve a kind
	supervisor *lifecycle.Group
	ended      chan struct{} // closed when the supervisor has returned
	waits      []string      // the kinds that are not served, while it stands by; protected by standbys.mu
}

// standbys holds the controllers with IfServed. Its lock is held for moments only, because watches call
// suspect while the manager waits for their end.
type standbys struct {
	mu    sync.Mutex
	named map[string]*standby
}

func (s *standbys) find(name string) *standby {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.named[name]
}

func (s *standbys) all() []*standby {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Values(s.named))
}

func (s *standbys) add(added *standby) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.named == nil {
		s.named = map[string]*standby{}
	}
	s.named[added.name] = added
}

func (s *standbys) remove(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.named, name)
}

// set records the kinds that a controller waits for.
func (s *standbys) set(of *standby, waits []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	of.waits = waits
}

// waits returns the kinds that controllers wait for, by controller.
func (s *standbys) waits() map[string][]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	waits := map[string][]string{}
	for name, standby := range s.named {
		waits[name] = standby.waits
	}
	return waits
}

// suspect makes the supervisors of the controllers that need a kind ask whether it is still served.
func (s *standbys) suspect(kind schema.GroupKind) {
	for _, standby := range s.all() {
		if slices.Contains(kindsOf(standby.kinds), kind) {
			standby.suspect()
		}
	}
}

// standBy adds a controller that waits for its kinds. The caller holds m.changing.
func (m *Manager) standBy(name string, reconciler operators.Reconciler, definition *definition) error {
	made, _, err := m.prepare(name, reconciler, definition)
	if err != nil {
		return err
	}
	added := &standby{name: name, reconciler: reconciler, definition: definition, kinds: made.watches, missing: make(chan struct{}, 1), ended: make(chan struct{})}
	for _, kind := range added.kinds {
		added.waits = append(added.waits, kind.kind.GroupKind().String())
	}
	m.standbys.add(added)
	if m.group != nil {
		m.supervise(m.group, added)
	}
	return nil
}

// supervise starts and stops a controller as its kinds come and go.
func (m *Manager) supervise(group *lifecycle.Group, of *standby) {
	of.supervisor = lifecycle.New(group.Context())
	supervisor := of.supervisor
	supervisor.Go("controller "+of.name+", if served", func(ctx context.Context) error {
		defer close(of.ended)
		for m.awaitServed(ctx, of, true) {
			if !m.startServed(ctx, of) {
				_ = lifecycle.Pause(ctx, startAgain) // At the end of ctx, awaitServed returns false.
				continue
			}
			if !m.awaitServed(ctx, of, false) {
				break
			}
			m.log.Info("the API server no longer serves a kind of the controller, which stops", "controller", of.name, "kinds", strings.Join(m.standbys.waits()[of.name], ", "))
			_ = m.removeMember(ctx, of.name, false) // It fails only if the manager ends, or if the controller is removed already.
		}
		return nil
	})
	group.Go("controller "+of.name+", if served", func(context.Context) error { return supervisor.Wait() })
}

// startAgain is the wait after a start that failed. The controller in its way may be removed meanwhile.
const startAgain = 10 * time.Second

// endStandby ends the supervision of a controller with IfServed, and reports whether it is one.
func (m *Manager) endStandby(ctx context.Context, name string) (found bool, err error) {
	m.changing.Lock()
	ending := m.standbys.find(name)
	m.standbys.remove(name)
	if ending == nil || ending.supervisor == nil { // Without a supervisor, the manager does not run.
		m.changing.Unlock()
		return ending != nil, nil
	}
	ending.supervisor.Stop()
	m.changing.Unlock()
	select {
	case <-ending.ended:
		return true, nil
	case <-ctx.Done():
		return true, context.Cause(ctx)
	}
}

// startServed adds the controller, and returns false if that fails.
func (m *Manager) startServed(ctx context.Context, of *standby) bool {
	m.changing.Lock()
	defer m.changing.Unlock()
	if ctx.Err() != nil {
		return false
	}
	m.log.Info("the API server serves the kinds of the controller, which starts", "controller", of.name)
	err := m.add(of.name, of.reconciler, of.definition)
	if err != nil && m.group != nil { // Another controller has taken the kind in a form of its own.
		m.log.Error("the controller cannot start", "controller", of.name, "error", err)
	}
	return err == nil
}

// awaitServed waits until all kinds of a controller are served, or until one of them no longer is. It
// returns false if ctx ends.
func (m *Manager) awaitServed(ctx context.Context, of *standby, served bool) bool {
	backoff := wait.Backoff{Duration: 250 * time.Millisecond, Factor: 2, Jitter: 0.25, Steps: 6, Cap: 8 * time.Second}
	logged := false
	for {
		if !served { // The watches notice the loss.
			select {
			case <-of.missing:
			case <-ctx.Done():
				return false
			}
		}
		waits, err := of.unserved(ctx)
		m.standbys.set(of, waits)
		if err == nil && served == (len(waits) == 0) {
			return ctx.Err() == nil
		}
		if served && !logged {
			logged = true
			m.log.Info("the controller waits until the API server serves its kinds", "controller", of.name, "kinds", strings.Join(waits, ", "))
		}
		if lifecycle.Pause(ctx, backoff.Step()) != nil {
			return false
		}
		if !served && err != nil {
			of.suspect() // The server did not say, so ask again.
		}
	}
}

// unserved returns the kinds that the API server does not serve.
func (s *standby) unserved(ctx context.Context) (kinds []string, err error) {
	for _, kind := range s.kinds {
		switch asked := kind.kind.IsServed(ctx, kind.client); {
		case errors.Is(asked, sources.ErrNotServed):
			kinds = append(kinds, kind.kind.GroupKind().String())
		case asked != nil:
			err = asked
			kinds = append(kinds, kind.kind.GroupKind().String())
		}
	}
	return kinds, err
}

// suspect makes the supervisor ask whether the kinds are still served.
func (s *standby) suspect() {
	select {
	case s.missing <- struct{}{}:
	default:
	}
}

// waits returns the kinds that the server does not serve or forbids, by the controllers that wait for them.
func (m *Manager) waits() map[string][]string {
	waits := m.standbys.waits()
	for name, member := range m.present.Load().members {
		waits[name] = slices.Clip(waits[name])
		for _, needed := range member.watches {
			if kind := needed.kind.GroupKind().String(); needed.refused.Load() && !slices.Contains(waits[name], kind) {
				waits[name] = append(waits[name], kind)
			}
		}
	}
	return waits
}
