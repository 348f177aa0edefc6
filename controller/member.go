package controller

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/bellerophon-io/bellerophon/cache"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/operators"
	"github.com/bellerophon-io/bellerophon/sources"
	"github.com/bellerophon-io/bellerophon/streams"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

// membership holds the controllers of a manager, and the state that changes with them.
type membership struct {
	present  atomic.Pointer[present]
	counting sync.Mutex       // held while recount sets which kinds count
	changing sync.Mutex       // held while present, group, ended or their contents change
	group    *lifecycle.Group // of Run, while it runs
	ended    bool

	mapping atomic.Int64 // controllers whose map functions are asked outside of the pipeline, also of removed ones

	runnables []Runnable
	standbys  standbys
	demanded  chan struct{} // holds a token when a demand has changed

	beforeSync *beforeSync
}

// member is a controller of a manager.
type member struct {
	name         string
	reconciled   *watched                  // the kind of For, or nil
	early        func(streams.Object) bool // see ReconcileBeforeSync; nil without it
	watches      []*watched                // the kinds that it needs, each once
	optional     []*watched                // the kinds that it names with OnDemand, each once
	uses         []*used                   // the kinds that it names with Uses, each once
	fieldManager string                    // of its writes; empty for the manager's
	rules        []operators.Rule
	reconcile    operators.Reconciler // the reconciler with its finalizers and pauses, which a replay calls
	controller   operators.Controller
	attempts     *attempts
	feeds        []feed
	joins        atomic.Bool // the controller was added while the manager runs, and has not joined yet; or stands by
	shared       *shared     // nil if the controller is not sharded
	from         int64       // the number of the share with which the controller came
	elected      bool        // the controller reconciles only while this replica leads

	installing sync.Mutex // held while leaving changes, and while the controller is installed or withdrawn
	leaving    bool       // the controller is being removed; it may be read while changing is held

	leave func()        // ends the wait for its kinds, and its feeds
	gone  chan struct{} // closed when the removal has ended
	err   error         // the error of the removal, once gone is closed
}

// watched is a kind that the manager watches for one or more controllers. The watch starts with the
// first of them, and stops with the last.
type watched struct {
	kind    sources.Kind
	options sources.WatchOptions
	project identity
	client  *rest.RESTClient
	indexes []cache.Indexer
	held    atomic.Pointer[cache.Store] // nil while the kind is not watched
	users   int                         // the number of controllers that need the watch, plus one for a demand that is met
	stop    func()                      // ends the watch, and returns when it has ended
	demand  demand
	refused atomic.Bool // the server refuses the first list
}

// store returns the store of the kind, or nil while the kind is not watched.
func (w *watched) store() *cache.Store { return w.held.Load() }

// present is an immutable snapshot of the controllers of a manager, and of the kinds that they watch.
type present struct {
	members map[string]*member
	watches []*watched
	uses    []*used
}

// copy returns a copy that can be changed without changing this snapshot.
func (p *present) copy() *present {
	return &present{maps.Clone(p.members), slices.Clone(p.watches), slices.Clone(p.uses)}
}

// inUse reports whether a controller names the kind.
func (w *watched) inUse() bool { return w.users > 0 || w.demand.named > 0 }

// index adds the indexes of an input. It fails if the kind is in use and lacks one of them.
func (w *watched) index(indexers []cache.Indexer) error {
	for _, added := range indexers {
		named := func(known cache.Indexer) bool { return known.Name == added.Name }
		switch {
		case added.Name == "" || added.Values == nil:
			return fmt.Errorf("Indexed: an index of %v has no name or no Values; set both", w.kind.GroupKind())
		case w.inUse() && !slices.ContainsFunc(w.indexes, named):
			return fmt.Errorf("Indexed: %v is watched already, without the index %q; give it to the controller that is added first", w.kind.GroupKind(), added.Name)
		case !w.inUse() && slices.ContainsFunc(w.indexes, named):
			return fmt.Errorf("Indexed: %v has the index %q already; choose another name", w.kind.GroupKind(), added.Name)
		case !w.inUse():
			w.indexes = append(w.indexes, added)
		}
	}
	return nil
}

// kindsOf returns the kinds of watches.
func kindsOf(watches []*watched) (kinds []schema.GroupKind) {
	for _, watched := range watches {
		kinds = append(kinds, watched.kind.GroupKind())
	}
	return kinds
}

// register adds a controller to the manager, and starts the watches that no other controller needs.
func (m *Manager) register(made *member, forms forms) {
	now := m.present.Load().copy()
	for _, watched := range slices.Concat(made.watches, made.optional) {
		if !slices.Contains(now.watches, watched) {
			now.watches = append(now.watches, watched)
		}
	}
	var first []*watched
	for _, watched := range made.watches {
		if m.acquire(watched, m.cache.Add) {
			first = append(first, watched)
		}
		watched.store().SetOptional(false)
	}
	for _, watched := range made.optional {
		watched.demand.named++
		m.notifyDemand() // The kind may have been claimed before.
	}
	for _, used := range made.uses {
		if used.users++; used.users == 1 {
			now.uses = append(now.uses, used)
		}
	}
	m.client.forms.Store(&forms)
	m.metrics.expect(made.name)
	now.members[made.name] = made
	if m.share != nil {
		m.share.joins(made)
	}
	m.present.Store(now)
	m.reselect()
	m.recount()
	for _, watched := range first {
		m.startWatch(watched)
	}
}

// acquire adds a user to a watch. For the first user it adds the store of the kind and returns true;
// the caller then has to start the watch.
func (m *Manager) acquire(watched *watched, add func(schema.GroupKind, ...cache.Indexer) *cache.Store) (first bool) {
	if watched.users++; watched.users > 1 {
		return false
	}
	store := add(watched.kind.GroupKind(), watched.indexes...)
	if len(watched.options.Namespaces) > 0 {
		store.SetNamespaces(watched.options.Namespaces...)
	}
	watched.held.Store(store)
	m.reselect() // Of a kind on demand; others are registered later.
	return true
}

// startWatch adds the watch to the inputs of the pipeline.
func (m *Manager) startWatch(watched *watched) {
	options := watched.options
	options.Transform = m.client.keepingManaged(watched)
	options.Begin = m.beforeSync.over
	options.OnObject = m.tape.object(watched.kind, watched.options.Transform != nil)
	options.OnFirst = func(objects []streams.Object) { m.beforeSync.found(m.present.Load(), watched, objects) }
	watched.stop = m.inputs.Add(sources.Watch(watched.client, watched.kind, options))
}

// release removes a user from a watch. After the last user the watch stops, and its objects leave the
// cache.
func (m *Manager) release(watched *watched) {
	if watched.users--; watched.users > 0 {
		watched.store().SetOptional(watched.users == 1 && watched.demand.met)
		return
	}
	watched.stop() // Stop the watch before the store is removed, because cache.Remove requires that it has ended.
	watched.held.Store(nil)
	m.cache.Remove(watched.kind.GroupKind())
	m.metrics.forgetKind(watched.kind.GroupKind())
}

// memberOf returns the controller that ctx belongs to, or nil outside of an attempt.
func (m *Manager) memberOf(ctx context.Context) *member {
	if request, ok := operators.RequestOf(ctx); ok {
		return m.present.Load().members[request.Controller]
	}
	return nil
}

// forget removes a controller whose last attempt has ended, and the watches that no other controller
// needs.
func (m *Manager) forget(left *member) {
	now := m.present.Load().copy()
	delete(now.members, left.name)
	for _, watched := range left.optional {
		if watched.demand.named--; watched.demand.named == 0 {
			m.endDemand(watched)
		}
	}
	for _, watched := range left.watches {
		m.release(watched)
	}
	forms := m.client.forms.Load().copy()
	now.watches = slices.DeleteFunc(now.watches, func(known *watched) bool {
		if !known.inUse() {
			forms.forget(known)
		}
		return !known.inUse()
	})
	for _, used := range left.uses {
		used.users--
	}
	now.uses = slices.DeleteFunc(now.uses, func(known *used) bool {
		if known.users == 0 {
			forms.drop(known)
			return true
		}
		forms.use(known) // A watch that has ended may have replaced its form.
		return false
	})
	m.client.forms.Store(&forms)
	m.present.Store(now)
	m.reselect()
	m.recount()
	m.metrics.forget(left.name)
}
