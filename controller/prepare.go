package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/bellerophon-io/bellerophon/cache"
	"github.com/bellerophon-io/bellerophon/operators"
	"github.com/bellerophon-io/bellerophon/sources"
	"github.com/bellerophon-io/bellerophon/streams"
	"k8s.io/apimachinery/pkg/types"
)

var errNameTaken = errors.New("the name is taken; choose another one")

// prepare creates a controller, and changes nothing else. Kinds that are not watched yet have no store
// so far. forms are the client's forms with the new kinds added.
func (m *Manager) prepare(name string, reconciler operators.Reconciler, definition *definition) (made *member, forms forms, err error) {
	now := m.present.Load()
	switch taken := now.members[name]; {
	case reconciler == nil:
		return nil, nil, errors.New("it has no reconciler; give one")
	case m.ended:
		return nil, nil, errors.New("the manager has ended; make another one")
	case taken != nil && taken.leaving:
		return nil, nil, errors.New("a controller of that name is being removed; wait until Remove has returned")
	case taken != nil:
		return nil, nil, errNameTaken
	}
	if err := definition.validate(); err != nil {
		return nil, nil, err
	}
	made = &member{name: name, fieldManager: definition.fieldManager, leave: func() {}, gone: make(chan struct{}), attempts: newAttempts()}
	forms = m.client.forms.Load().copy()
	inputs := definition.all()
	watches := make([]*watched, 0, len(inputs))
	for _, input := range inputs {
		watched, err := m.watch(made, forms, input)
		if err != nil {
			return nil, nil, err
		}
		watches = append(watches, watched)
		if to := made.list(input); !slices.Contains(*to, watched) {
			*to = append(*to, watched)
		}
		if input == definition.reconciles {
			made.reconciled, made.early = watched, input.early
		}
		mapFunc := input.mapFunc
		if mapFunc == nil && input != definition.reconciles && made.reconciled != nil {
			mapFunc = ownerOf(made.reconciled.kind)
		}
		rule := operators.Rule{
			Controller: name, Kind: watched.kind.GroupKind(), Map: mapFunc, When: definition.predicate(input), BeforeSync: input.early,
		}
		if input.changes != nil {
			rule.MapChange = func(change streams.Change) []types.NamespacedName { return input.changes(m.client, change) }
		}
		made.rules = append(made.rules, rule)
	}
	for _, input := range definition.uses {
		if err := m.use(made, forms, input); err != nil {
			return nil, nil, err
		}
	}
	reconciled := made.reconciled
	for i, added := range definition.finalizers {
		if err := added.validate(reconciled.kind); err != nil {
			return nil, nil, err
		}
		if slices.ContainsFunc(definition.finalizers[:i], func(known finalizer) bool { return known.name == added.name }) {
			return nil, nil, fmt.Errorf("Finalizer %s is given twice; give each a name of its own", added.name)
		}
	}
	if len(definition.finalizers) > 0 {
		reconciler = finalizing(m.client, reconciled.kind.GroupVersionKind, definition.finalizers, reconciler)
	}
	if len(definition.pausedBy) > 0 {
		if err := validatePause(definition.pausedBy); err != nil {
			return nil, nil, err
		}
		reconciler = pausing(reconciled, definition.pausedBy, reconciler)
	}
	made.reconcile = reconciler
	reconciler = m.tape.attempt(reconciler)
	if m.options.DetectMutations {
		reconciler = detecting(m.cache, reconciler)
	}
	if made.elected = m.leader != nil && !definition.everyReplica; made.elected {
		reconciler = m.leader.within(reconciler)
	}
	made.feeds = definition.feeds
	if reconciled != nil {
		reconciler = scoped(reconciled, reconciler)
	}
	if definition.resync != 0 {
		if definition.resync < shortestResync || definition.resync > longestResync {
			return nil, nil, fmt.Errorf("Resync is %v; allowed is %v to %v", definition.resync, shortestResync, longestResync)
		}
		made.feeds = append(slices.Clone(made.feeds), feed{"resync", resyncing(reconciled, definition.resync), true})
	}
	reconciler = m.slowing(made, reconciler)
	if m.share != nil && !definition.unsharded {
		if reconciled == nil {
			return nil, nil, errors.New("it has no For, so that its objects cannot be shared among replicas; give For or Unsharded")
		}
		made.shared = newShared(reconciled, inputs, watches)
		made.shared.release = definition.release
		reconciler = m.share.sharing(made, reconciler)
	}
	if made.early != nil {
		reconciler = m.beforeSync.following(name, reconciler)
	}
	made.controller = operators.Controller{
		Reconcile:    made.attempts.tracked(reconciler),
		IgnoreEchoes: definition.ignoreEchoes,
		Stats:        &operators.StageStats{},

		MaxConcurrent: definition.limits.MaxConcurrent,
		Timeout:       definition.limits.Timeout,
		Backoff:       definition.limits.Backoff,
		Delay:         definition.limits.Delay,
	}
	if err := made.controller.Validate(); err != nil {
		return nil, nil, err
	}
	return made, forms, nil
}

// all returns the kinds whose changes make requests, the one of For first.
func (d *definition) all() []*input {
	if d.reconciles == nil {
		return d.inputs
	}
	return append([]*input{d.reconciles}, d.inputs...)
}

// validate returns an error for options that do not fit each other.
func (d *definition) validate() error {
	for _, feed := range d.feeds {
		if feed.name == "" {
			return errors.New("From has no name; give one")
		}
	}
	for _, input := range d.inputs {
		if input.early != nil {
			return fmt.Errorf("ReconcileBeforeSync is given for a %T in Owns or Watches; give it in For only", input.object)
		}
	}
	if d.reconciles != nil {
		if d.reconciles.onDemand {
			return fmt.Errorf("OnDemand is given for the %T in For; give it in Owns or Watches only", d.reconciles.object)
		}
		return nil
	}
	if len(d.inputs) == 0 && len(d.feeds) == 0 {
		return errors.New("it has no For, Watches or From, and would never be called; name a kind that it reconciles, or what makes its requests")
	}
	for _, input := range d.inputs {
		if input.mapFunc == nil && input.changes == nil {
			return fmt.Errorf("it has no For, and so the %T of Owns, or of Watches without a map function, has no owner to request; give For or a map function", input.object)
		}
	}
	for _, option := range []struct {
		name  string
		given bool
	}{
		{"Finalizer", len(d.finalizers) > 0},
		{"PausedBy", len(d.pausedBy) > 0},
		{"Resync", d.resync != 0},
		{"IfServed", d.ifServed && len(d.inputs) == 0},
	} {
		if option.given {
			return fmt.Errorf("%s needs the objects of a kind; give For", option.name)
		}
	}
	return nil
}

// predicate returns the predicate of a kind. The one of For leaves no change out that a finalizer or a pause
// needs.
func (d *definition) predicate(of *input) func(streams.Change) bool {
	when := of.when
	if when == nil || of != d.reconciles {
		return when
	}
	if len(d.finalizers) > 0 {
		when = AnyOf(when, isLeaving) // Otherwise the finalizer might never run.
	}
	if len(d.pausedBy) > 0 {
		when = AnyOf(when, changesPause(d.pausedBy))
	}
	return when
}

// ownerOf returns the map function for objects that are controlled by an object of a kind.
func ownerOf(kind sources.Kind) func(streams.Object) []types.NamespacedName {
	namespaced, unscoped := operators.Owner(kind.GroupKind()), operators.ClusterOwner(kind.GroupKind())
	return func(object streams.Object) []types.NamespacedName {
		if kind.Namespaced() {
			return namespaced(object)
		}
		return unscoped(object)
	}
}

// scoped returns a reconciler that skips requests for objects which cannot exist: with a namespace, for a
// kind that has none. An owned object makes such a request before the scope of its owner is known. If the
// owner exists, it makes its own request as soon as it is listed.
func scoped(of *watched, reconcile operators.Reconciler) operators.Reconciler {
	return func(ctx context.Context, request operators.Request) (time.Duration, error) {
		if request.Namespace != "" {
			_ = of.kind.Locate(ctx, of.client) // If it fails, the kind counts as namespaced.
			if !of.kind.Namespaced() {
				return 0, nil
			}
		}
		return reconcile(ctx, request)
	}
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
	switch {
	case !kind.Namespaced() && len(options.Namespaces) > 0:
		return nil, fmt.Errorf("%v has no namespaces; leave Namespaces out", kind.GroupKind())
	case kind.Namespaced() && len(options.Namespaces) == 0:
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
	client, err := m.clientOf(kind)
	if err != nil {
		return nil, err
	}
	options.Status = &sources.Status{}
	if m.share != nil {
		options.Selecting = &sources.Selecting{}
	}
	added := &watched{kind: kind, options: options, project: input.project, client: client, indexes: []cache.Indexer{cache.ByOwner}}
	options.Status.OnRefusal = func(refused bool) {
		added.refused.Store(refused)
		m.recount()
	}
	options.Status.OnMissing = func() { m.standbys.suspect(kind.GroupKind()) }
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
