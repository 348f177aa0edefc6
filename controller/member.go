package controller

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
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

// membership is the controllers of a manager, and what changes with them.
type membership struct {
	present  atomic.Pointer[present]
	counting sync.Mutex       // held while the kinds that count are chosen
	changing sync.Mutex       // held while present and what follows change
	group    *lifecycle.Group // of Run, while it runs
	ended    bool
}

// member is a controller of a manager.
type member struct {
	name       string
	watches    []*watched // what it needs, each once
	optional   []*watched // what it may ask for, likewise: see OnDemand
	rules      []operators.Rule
	controller operators.Controller
	attempts   *attempts
	feeds      []feed
	joins      atomic.Bool // it was added while the manager runs, and its kinds are not current yet

	leaving bool          // it is being removed
	leave   func()        // ends the joining, where it joins a manager that runs
	gone    chan struct{} // is closed when the removal has ended
	err     error         // of the removal, when gone is closed
}

// watched is a kind that the manager watches, for one controller or several. It starts with
// the first of them, and stops with the last.
type watched struct {
	kind    sources.Kind
	options sources.WatchOptions
	project identity
	client  *rest.RESTClient
	indexes []cache.Indexer
	held    atomic.Pointer[cache.Store] // nil while nobody needs it
	users   int                         // controllers that need it, and the demand
	stop    func()                      // ends the watch, and waits for that
	demand  demand
	refused atomic.Bool // the server refuses its first list
}

// store is what is held of the kind, nil while it is not watched.
func (w *watched) store() *cache.Store { return w.held.Load() }

// present is the controllers of a manager, and what they watch, at one time. Nothing changes
// it.
type present struct {
	members map[string]*member
	watches []*watched
}

// copy is one that can be changed without changing this one.
func (p *present) copy() *present {
	return &present{maps.Clone(p.members), slices.Clone(p.watches)}
}

// entered says whether a controller has come that watches the kind, or may.
func (w *watched) entered() bool { return w.users > 0 || w.demand.claims > 0 }

// index adds indexes that an input asks for.
func (w *watched) index(indexers []cache.Indexer) error {
	for _, added := range indexers {
		named := func(known cache.Indexer) bool { return known.Name == added.Name }
		switch {
		case added.Name == "" || added.Values == nil:
			return fmt.Errorf("Indexed: an index of %v has no name or no Values", w.kind.GroupKind())
		case w.entered() && !slices.ContainsFunc(w.indexes, named):
			return fmt.Errorf("Indexed: %v is watched already, without the index %q; let the controller that is added first index it", w.kind.GroupKind(), added.Name)
		case !w.entered() && slices.ContainsFunc(w.indexes, named):
			return fmt.Errorf("Indexed: %v has the index %q already; names must differ", w.kind.GroupKind(), added.Name)
		case !w.entered():
			w.indexes = append(w.indexes, added)
		}
	}
	return nil
}

// kindsOf is what is watched.
func kindsOf(watches []*watched) (kinds []schema.GroupKind) {
	for _, watched := range watches {
		kinds = append(kinds, watched.kind.GroupKind())
	}
	return kinds
}

// prepare makes a controller, and changes nothing else. What it needs and nobody watches yet
// has no store; forms are what the client knows with it.
func (m *Manager) prepare(name string, reconciler operators.Reconciler, definition *definition) (made *member, forms map[reflect.Type]*form, err error) {
	now := m.present.Load()
	switch taken := now.members[name]; {
	case definition.reconciles == nil:
		return nil, nil, errors.New("it has no For; name the kind that it reconciles")
	case reconciler == nil:
		return nil, nil, errors.New("it has no reconciler")
	case m.ended:
		return nil, nil, errors.New("the manager has ended; make another one")
	case taken != nil && taken.leaving:
		return nil, nil, errors.New("one of the name is being removed; wait until Remove has returned")
	case taken != nil:
		return nil, nil, errors.New("the name is taken")
	}
	made = &member{name: name, leave: func() {}, gone: make(chan struct{}), attempts: newAttempts(m.cache.MarkActive)}
	forms = maps.Clone(*m.client.forms.Load())
	var reconciled sources.Kind
	for _, input := range append([]*input{definition.reconciles}, definition.inputs...) {
		if input.early != nil && input != definition.reconciles {
			return nil, nil, fmt.Errorf("ReconcileBeforeSync is an option of For, not of the %T that it watches besides", input.object)
		}
		if input.onDemand && input == definition.reconciles {
			return nil, nil, fmt.Errorf("OnDemand is an option of Owns and Watches, not of the %T that it reconciles", input.object)
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
		concerns := input.concerns
		if concerns == nil && input != definition.reconciles {
			concerns = ownerOf(reconciled)
		}
		made.rules = append(made.rules, operators.Rule{
			Controller: name, Kind: watched.kind.GroupKind(), Map: concerns, When: input.when, BeforeSync: input.early,
		})
	}
	if m.options.DetectMutations {
		reconciler = detecting(m.cache, reconciler)
	}
	for _, feed := range definition.feeds {
		if feed.name == "" {
			return nil, nil, errors.New("a stream of From has no name; name it")
		}
	}
	made.feeds = definition.feeds
	made.controller = operators.Controller{
		Reconcile:    made.attempts.counting(reconciler),
		IgnoreEchoes: definition.ignoreEchoes,
		Stats:        &operators.StageStats{},
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

// watch finds the watch that a controller needs, or makes it. Where there is one, the options
// must be the same: one cache cannot hold two projections of a kind.
func (m *Manager) watch(made *member, forms map[reflect.Type]*form, input *input) (*watched, error) {
	if input.wrong != nil {
		return nil, input.wrong
	}
	kind, err := sources.KindOf(m.scheme, input.object, input.kind...)
	if err != nil {
		return nil, err
	}
	options := input.watch
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
	if err := m.client.add(forms, added); err != nil {
		return nil, err
	}
	return added, nil
}

// list is where a controller notes what it watches of an input.
func (m *member) list(input *input) *[]*watched {
	if input.onDemand {
		return &m.optional
	}
	return &m.watches
}

// enter takes a controller in: the watches that it is the first to need begin.
func (m *Manager) enter(made *member, forms map[reflect.Type]*form) {
	now := m.present.Load().copy()
	for _, watched := range slices.Concat(made.watches, made.optional) {
		if !slices.Contains(now.watches, watched) {
			now.watches = append(now.watches, watched)
		}
	}
	var first []*watched
	for _, watched := range made.watches {
		if m.hold(watched, m.cache.Add) {
			first = append(first, watched)
		}
		watched.store().SetOptional(false)
	}
	for _, watched := range made.optional {
		watched.demand.claims++
		m.lookAtDemand() // Somebody may have wanted it before.
	}
	m.client.forms.Store(&forms)
	m.metrics.expect(made.name)
	now.members[made.name] = made
	m.present.Store(now)
	m.recount()
	for _, watched := range first {
		m.begin(watched)
	}
}

// hold has a watch needed by one more. It says whether that is the first, and the watch is to
// begin.
func (m *Manager) hold(watched *watched, add func(schema.GroupKind, ...cache.Indexer) *cache.Store) (first bool) {
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

func (m *Manager) begin(watched *watched) {
	watched.stop = m.inputs.Add(sources.Watch(watched.client, watched.kind, watched.options))
}

// release has a watch needed by one less. After the last it stops, and what it told leaves the
// cache.
func (m *Manager) release(watched *watched) {
	if watched.users--; watched.users > 0 {
		watched.store().SetOptional(watched.users == 1 && watched.demand.met)
		return
	}
	watched.stop() // Before the store goes: it must not tell of anything after that.
	watched.held.Store(nil)
	m.cache.Remove(watched.kind.GroupKind())
	m.metrics.forgetKind(watched.kind.GroupKind())
}

// forget gives up a controller whose last attempt has ended, and the watches that nobody else
// needs.
func (m *Manager) forget(left *member) {
	now := m.present.Load().copy()
	delete(now.members, left.name)
	for _, watched := range left.optional {
		if watched.demand.claims--; watched.demand.claims == 0 {
			m.endDemand(watched)
		}
	}
	for _, watched := range left.watches {
		m.release(watched)
	}
	now.watches = slices.DeleteFunc(now.watches, func(known *watched) bool {
		if !known.entered() {
			m.client.forget(known)
		}
		return !known.entered()
	})
	m.present.Store(now)
	m.recount()
	m.metrics.forget(left.name)
}
