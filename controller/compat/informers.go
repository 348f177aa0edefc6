package compat

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/bellerophon-io/bellerophon/cache"
	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/streams"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// informers is the cache of Bellerophon's manager as controller-runtime's code uses it. Sources of
// controllers get informers that record their handlers.
type informers struct {
	*both
	manager   *controller.Manager
	transform func(streams.Object)
	running   chan struct{} // closed when the first controller was added
	begin     func()        // closes running

	mu      sync.Mutex
	indexes map[schema.GroupVersionKind]*indexed // of kinds that no controller has been given yet
	taken   bool
}

var _ ctrlcache.Cache = &informers{}

// indexed is a kind with indexes.
type indexed struct {
	object   client.Object
	mapping  *meta.RESTMapping
	indexers []cache.Indexer
}

func newInformers(of *both, transform func(streams.Object)) *informers {
	made := &informers{
		both: of, manager: of.ours.Manager(), transform: transform, running: make(chan struct{}), indexes: map[schema.GroupVersionKind]*indexed{},
	}
	made.begin = sync.OnceFunc(func() { close(made.running) })
	return made
}

// Start runs Bellerophon's manager, from the first controller on.
func (i *informers) Start(ctx context.Context) error {
	select {
	case <-i.running:
		return i.manager.Run(ctx)
	case <-ctx.Done():
		return nil
	}
}

// WaitForCacheSync waits for the first lists. It does not wait for controllers that have not started.
func (i *informers) WaitForCacheSync(ctx context.Context) bool {
	select {
	case <-i.running:
		return memberOf(ctx) != nil || i.manager.Cache().Wait(ctx, cache.Listed) == nil
	default:
		return true
	}
}

// kindOf returns the kind of an object.
func (i *informers) kindOf(object client.Object) (schema.GroupVersionKind, *meta.RESTMapping, error) {
	kind, err := apiutil.GVKForObject(object, i.Scheme())
	if err != nil {
		return kind, nil, err
	}
	mapping, err := i.RESTMapper().RESTMapping(kind.GroupKind(), kind.Version)
	return kind, mapping, err
}

// inputs returns the options with which a controller watches a kind.
func (i *informers) inputs(kind schema.GroupVersionKind, object client.Object, mapping *meta.RESTMapping, indexes *indexed) []controller.InputOption {
	options := []controller.InputOption{controller.Plural(mapping.Resource.Resource), controller.Transform(i.transform)}
	if mapping.Scope.Name() == meta.RESTScopeNameRoot {
		options = append(options, controller.ClusterScoped())
	}
	if named := object.GetObjectKind().GroupVersionKind(); !named.Empty() {
		options = append(options, controller.OfKind(kind))
	}
	if indexes != nil {
		options = append(options, controller.Indexed(indexes.indexers...))
	}
	return options
}

// ofOwnIndex is the name under which an index is kept whose name Bellerophon uses itself.
const ofOwnIndex = cache.OwnerIndex + ".compat"

// indexOf returns the name of the index of a field.
func indexOf(field string) string {
	if field == cache.OwnerIndex {
		return ofOwnIndex
	}
	return field
}

// IndexField adds an index to a kind, which is then watched from the first controller on.
func (i *informers) IndexField(_ context.Context, object client.Object, field string, values client.IndexerFunc) error {
	indexer := cache.Indexer{Name: indexOf(field), Values: func(object streams.Object, held []string) []string {
		return append(held, values(object)...)
	}}
	if err := i.want(object, indexer); err != nil {
		return fmt.Errorf("cannot index %T by %s: %w", object, field, err)
	}
	return nil
}

// want makes the first controller watch a kind.
func (i *informers) want(object client.Object, indexers ...cache.Indexer) error {
	kind, mapping, err := i.kindOf(object)
	if err != nil {
		return err
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.taken {
		return errors.New("controllers run already; do it before the manager starts")
	}
	if i.indexes[kind] == nil {
		i.indexes[kind] = &indexed{object: object, mapping: mapping}
	}
	for _, known := range i.indexes[kind].indexers {
		for _, added := range indexers {
			if known.Name == added.Name {
				return fmt.Errorf("it has the index %q already", added.Name)
			}
		}
	}
	i.indexes[kind].indexers = append(i.indexes[kind].indexers, indexers...)
	return nil
}

// takeIndexes returns the indexes for the first controller, and none for the others.
func (i *informers) takeIndexes() map[schema.GroupVersionKind]*indexed {
	i.mu.Lock()
	defer i.mu.Unlock()
	taken := maps.Clone(i.indexes)
	i.taken = true
	clear(i.indexes)
	return taken
}

// GetInformer returns an informer. For a source of a controller it records the source's handler. Otherwise
// it makes the manager watch the kind.
func (i *informers) GetInformer(ctx context.Context, object client.Object, _ ...ctrlcache.InformerGetOption) (ctrlcache.Informer, error) {
	of := memberOf(ctx)
	kind, mapping, err := i.kindOf(object)
	if err != nil {
		of.cannotWatch(err)
		return nil, err
	}
	made := &informer{member: of, kind: kind, mapping: mapping, object: object}
	if made.member == nil && i.listed(kind.GroupKind()) == nil {
		if err := i.want(object); err != nil {
			return nil, fmt.Errorf("cannot watch %v: %w", kind, err)
		}
	}
	return made, nil
}

// GetInformerForKind returns an informer, as GetInformer does.
func (i *informers) GetInformerForKind(ctx context.Context, kind schema.GroupVersionKind, options ...ctrlcache.InformerGetOption) (ctrlcache.Informer, error) {
	object, err := i.Scheme().New(kind)
	if err != nil {
		return nil, err
	}
	typed, is := object.(client.Object)
	if !is {
		return nil, fmt.Errorf("a %T is no object", object)
	}
	return i.GetInformer(ctx, typed, options...)
}

// RemoveInformer returns an error: a watch lasts as long as controllers need it.
func (i *informers) RemoveInformer(_ context.Context, object client.Object) error {
	return fmt.Errorf("the informer of %T cannot be removed: a watch of Bellerophon lasts as long as controllers need it", object)
}

// informer records the handlers of a controller for a kind.
type informer struct {
	member  *member // nil outside of the sources of a controller
	kind    schema.GroupVersionKind
	mapping *meta.RESTMapping
	object  client.Object
}

// AddEventHandler records a handler.
func (f *informer) AddEventHandler(by toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error) {
	return f.AddEventHandlerWithOptions(by, toolscache.HandlerOptions{})
}

// AddEventHandlerWithResyncPeriod records a handler, if the period is 0.
func (f *informer) AddEventHandlerWithResyncPeriod(by toolscache.ResourceEventHandler, resync time.Duration) (toolscache.ResourceEventHandlerRegistration, error) {
	return f.AddEventHandlerWithOptions(by, toolscache.HandlerOptions{ResyncPeriod: &resync})
}

// AddEventHandlerWithOptions records a handler. It fails outside of the sources of a controller.
func (f *informer) AddEventHandlerWithOptions(by toolscache.ResourceEventHandler, options toolscache.HandlerOptions) (toolscache.ResourceEventHandlerRegistration, error) {
	switch {
	case f.member == nil:
		return nil, fmt.Errorf("cannot call a handler for %v: only the sources of a controller have handlers; "+
			"use source.Kind, or the stream Changes of Bellerophon's manager", f.kind)
	case options.ResyncPeriod != nil && *options.ResyncPeriod > 0:
		return nil, fmt.Errorf("cannot call a handler for %v every %v; return RequeueAfter from the reconciler", f.kind, *options.ResyncPeriod)
	}
	return synced{}, f.member.record(f.kind, f.object, f.mapping, by)
}

// RemoveEventHandler returns an error.
func (f *informer) RemoveEventHandler(toolscache.ResourceEventHandlerRegistration) error {
	return fmt.Errorf("a handler for %v cannot be removed", f.kind)
}

// AddIndexers returns an error.
func (f *informer) AddIndexers(toolscache.Indexers) error {
	return fmt.Errorf("cannot add an index to %v; use IndexField", f.kind)
}

// HasSynced returns true: Bellerophon calls the reconciler when the kinds of its controller are current.
func (f *informer) HasSynced() bool { return true }

// HasSyncedChecker returns a checker that is done, for the same reason.
func (f *informer) HasSyncedChecker() toolscache.DoneChecker { return synced{} }

// IsStopped returns false.
func (f *informer) IsStopped() bool { return false }

// synced is the registration of a handler, and the checker of a cache that has synced.
type synced struct{}

func (synced) Name() string                             { return "Bellerophon" }
func (synced) HasSynced() bool                          { return true }
func (synced) HasSyncedChecker() toolscache.DoneChecker { return synced{} }
func (synced) Done() <-chan struct{}                    { return closed }

var closed = func() chan struct{} {
	made := make(chan struct{})
	close(made)
	return made
}()
