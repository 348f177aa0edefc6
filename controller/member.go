package controller

import (
	"context"
	"errors"
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
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

// membership holds the controllers of a manager, and the state that changes with them.
type membership struct {
	present  atomic.Pointer[present]
	counting sync.Mutex       // held while recount sets which kinds count
	changing sync.Mutex       // held while present, group, ended or their contents change
	group    *lifecycle.Group // of Run, while it runs
	ended    bool
}

// member is a controller of a manager.
type member struct {
	name         string
	watches      []*watched // the kinds that it needs, each once
	optional     []*watched // the kinds that it names with OnDemand, each once
	uses         []*used    // the kinds that it names with Uses, each once
	fieldManager string     // of its writes; empty for the manager's
	rules        []operators.Rule
	controller   operators.Controller
	attempts     *attempts
	feeds        []feed
	joins        atomic.Bool // the controller was added while the manager runs, and has not joined yet

	leaving bool          // the controller is being removed
	leave   func()        // ends the wait for its kinds, and its feeds
	gone    chan struct{} // closed when the removal has ended
	err     error         // the error of the removal, once gone is closed
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

// prepare creates a controller, and changes nothing else. Kinds that are not watched yet have no store
// so far. forms are the client's forms with the new kinds added.
func (m *Manager) prepare(name string, reconciler operators.Reconciler, definition *definition) (made *member, forms forms, err error) {
	now := m.present.Load()
	switch taken := now.members[name]; {
	case definition.reconciles == nil:
		return nil, nil, errors.New("it has no For; name the kind that it reconciles")
	case reconciler == nil:
		return nil, nil, errors.New("it has no reconciler; give one")
	case m.ended:
		return nil, nil, errors.New("the manager has ended; make another one")
	case taken != nil && taken.leaving:
		return nil, nil, errors.New("a controller of that name is being removed; wait until Remove has returned")
	case taken != nil:
		return nil, nil, errors.New("the name is taken; choose another one")
	}
	made = &member{name: name, fieldManager: definition.fieldManager, leave: func() {}, gone: make(chan struct{}), attempts: newAttempts()}
	forms = m.client.forms.Load().copy()
	var reconciled sources.Kind
	for _, input := range append([]*input{definition.reconciles}, definition.inputs...) {
		if input.early != nil && input != definition.reconciles {
			return nil, nil, fmt.Errorf("ReconcileBeforeSync is given for a %T in Owns or Watches; give it in For only", input.object)
		}
		if input.onDemand && input == definition.reconciles {
			return nil, nil, fmt.Errorf("OnDemand is given for the %T in For; give it in Owns or Watches only", input.object)
		}
		watched, err := m.watch(made, forms, input)
		if err != nil {
			return nil, nil, err
		}
		if to := made.list(input); !slices.Contains(*to, watched) {
			*to = append(*to, watched)
		}
		if input == definition.reconciles {
			reconciled = watched.kind
		}
		mapFunc := input.mapFunc
		if mapFunc == nil && input != definition.reconciles {
			mapFunc = ownerOf(reconciled)
		}
		when := input.when
		if when != nil && input == definition.reconciles && len(definition.finalizers) > 0 {
			when = AnyOf(when, isLeaving) // Otherwise the finalizer might never run.
		}
		made.rules = append(made.rules, operators.Rule{
			Controller: name, Kind: watched.kind.GroupKind(), Map: mapFunc, When: when, BeforeSync: input.early,
		})
	}
	for _, input := range definition.uses {
		if err := m.use(made, forms, input); err != nil {
			return nil, nil, err
		}
	}
	for i, added := range definition.finalizers {
		if err := added.validate(reconciled); err != nil {
			return nil, nil, err
		}
		if slices.ContainsFunc(definition.finalizers[:i], func(known finalizer) bool { return known.name == added.name }) {
			return nil, nil, fmt.Errorf("Finalizer %s is given twice; give each a name of its own", added.name)
		}
	}
	if len(definition.finalizers) > 0 {
		reconciler = finalizing(m.client, reconciled.GroupVersionKind, definition.finalizers, reconciler)
	}
	if m.options.DetectMutations {
		reconciler = detecting(m.cache, reconciler)
	}
	for _, feed := range definition.feeds {
		if feed.name == "" {
			return nil, nil, errors.New("From has no name; give one")
		}
	}
	made.feeds = definition.feeds
	if definition.resync != 0 {
		if definition.resync < shortestResync || definition.resync > longestResync {
			return nil, nil, fmt.Errorf("Resync is %v; allowed is %v to %v", definition.resync, shortestResync, longestResync)
		}
		made.feeds = append(slices.Clone(made.feeds), feed{"resync", resyncing(made.watches[0], definition.resync)})
	}
	made.controller = operators.Controller{
		Reconcile:    made.attempts.tracked(reconciler),
		IgnoreEchoes: definition.ignoreEchoes,
		Stats:        &operators.StageStats{},

		MaxConcurrent: definition.limits.MaxConcurrent,
		Timeout:       definition.limits.Timeout,
		Backoff:       definition.limits.Backoff,
	}
	if err := made.controller.Validate(); err != nil {
		return nil, nil, err
	}
	return made, forms, nil
}

// ownerOf returns the map function for objects that are controlled by an object of a kind.
func ownerOf(kind sources.Kind) func(streams.Object) []types.NamespacedName {
	if kind.Namespaced {
		return operators.Owner(kind.GroupKind())
	}
	return operators.ClusterOwner(kind.GroupKind())
}

// watch returns the watch that a controller needs, and creates it if there is none. The options must
// be the same as for a watch that exists, because one cache cannot hold two projections of a kind.
func (m *Manager) watch(made *member, forms forms, input *input) (*watched, error) {
	if input.wrong != nil {
		return nil, input.wrong
	}
	kind, err := sources.KindOf(m.scheme, input.object, input.kind...)
	if err != nil {
		return nil, err
	}
	options := input.options
	options.PageSize, options.MaxStaleness = m.options.PageSize, m.options.MaxStaleness
	if kind.Namespaced {
		options.Namespaces = m.options.Namespaces
	}
	if err := options.Validate(); err != nil {
		return nil, fmt.Errorf("%v: %w", kind.GroupKind(), err)
	}
	for _, known := range slices.Concat(m.present.Load().watches, made.watches, made.optional) {
		if known.kind.GroupKind() != kind.GroupKind() {
			continue
		}
		if err := known.index(input.indexers); err != nil {
			return nil, err
		}
		return known, known.same(kind, options, input.project)
	}
	client, err := kind.Client(m.config, m.http)
	if err != nil {
		return nil, err
	}
	options.Status = &sources.Status{}
	added := &watched{kind: kind, options: options, project: input.project, client: client, indexes: []cache.Indexer{cache.ByOwner}}
	options.Status.OnRefusal = func(refused bool) {
		added.refused.Store(refused)
		m.recount()
	}
	if err := added.index(input.indexers); err != nil {
		return nil, err
	}
	for _, used := range m.present.Load().uses {
		added.demand.restricts = input.onDemand
		if err := added.suffices(used.form.as.GroupKind()); err != nil {
			return nil, err
		}
	}
	added.demand.restricts = input.onDemand
	if err := forms.watch(m.client, added); err != nil {
		return nil, err
	}
	return added, nil
}

// list returns the field that holds the watch of an input.
func (m *member) list(input *input) *[]*watched {
	if input.onDemand {
		return &m.optional
	}
	return &m.watches
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
	m.present.Store(now)
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
		store.LimitTo(watched.options.Namespaces...)
	}
	watched.held.Store(store)
	return true
}

// startWatch adds the watch to the inputs of the pipeline.
func (m *Manager) startWatch(watched *watched) {
	watched.stop = m.inputs.Add(sources.Watch(watched.client, watched.kind, watched.options))
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
	m.recount()
	m.metrics.forget(left.name)
}
