package cache

import (
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/bellerophon-io/bellerophon/streams"
	lru "github.com/hashicorp/golang-lru/v2"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// tombstonesRemembered bounds the deletions that a store remembers. They let it recognize late
// events of deleted objects.
const tombstonesRemembered = 4096

// tombstoneAge is how long a deletion is remembered. No event comes so late. A list ends within the 5 to 10
// minutes for which API servers keep an old state. A debounce window lasts at most a minute.
const tombstoneAge = 15 * time.Minute

// Store holds the objects of one kind. Get, List and ByIndex may be called from any goroutine, and
// never wait. The objects that they return must not be changed.
type Store struct {
	kind  schema.GroupKind
	since time.Time // events received earlier belong to a store that was removed; zero if there was none
	log   *slog.Logger

	published atomic.Pointer[state] // what readers see, without own writes
	overlay   overlay               // own writes that the watch has not passed
	anomalies anomalies
	mutations *mutations // nil unless mutations are to be detected
	syncing
	writing
}

// syncing is the part of a store that the level of sync and the loop duration depend on.
type syncing struct {
	optional atomic.Bool // see SetOptional
	refused  atomic.Bool // see SetRefused
	limited  bool        // SetNamespaces has named what the sources cover
	bound    time.Duration
	loop     *Loop

	selection atomic.Pointer[streams.Selection] // see Select
	changed   func()                            // notifies the cache that the level may have changed
	echoed    func(latency time.Duration)       // notifies the cache that the watch has passed an own write
}

// writing is the part of a store that only its writer uses, except for tombstones.
type writing struct {
	working    *view                          // the state that published is a copy of, with later changes
	table      *table                         // the slots of working, except for the changes in fresh
	fresh      map[types.NamespacedName]*slot // slots that the current batch has set; nil for a removal
	moved      bool                           // the trees or scopes of working differ from the published ones
	relists    map[string]*relist             // by scope: the lists that are coming in
	sizes      sizes
	tombstones *lru.Cache[types.NamespacedName, tombstone] // it has a lock of its own: the overlay reads it too
	events     []*streams.Event                            // the events of objects since the last publish
	lastMark   *streams.Event                              // the last list or bookmark since then, or nil
	applied    *streams.Selection                          // the one that working agrees with
	resets     map[string]time.Time                        // when the last lists since then that are resets were asked for, by the namespace of the source
}

// state is what readers see: the trees of a view as they were published, and the current objects in
// its slots.
type state struct {
	*view
	scopes scopes // up to where the trees and the table have everything; the scopes of the view may be ahead
	table  *table
}

// tombstone is what is remembered of a deleted object.
type tombstone struct {
	uid             types.UID
	resourceVersion string
	received        time.Time // when the source received the deletion
}

// newStore creates an empty store.
func newStore(kind schema.GroupKind, indexers []Indexer, of *Cache, echoed func(time.Duration)) *Store {
	tombstones, err := lru.New[types.NamespacedName, tombstone](tombstonesRemembered)
	if err != nil {
		panic(err) // Only for a size below 1.
	}
	s := &Store{
		kind: kind,
		log:  of.log.With("kind", kind.String()),
		syncing: syncing{
			bound:   of.bound,
			loop:    of.loop,
			changed: of.sync.changed,
			echoed:  echoed,
		},
		writing: writing{
			working:    newView(indexers),
			table:      newTable(),
			fresh:      map[types.NamespacedName]*slot{},
			relists:    map[string]*relist{},
			tombstones: tombstones,
		},
	}
	s.publishAll()
	s.overlay.init(indexers)
	return s
}

// SetNamespaces sets the namespaces that the sources of the kind cover. The store is then complete when
// each namespace has been listed. Without SetNamespaces, it is complete after the first list of any
// source. A source of the whole cluster takes the place of all of them, because the kind then has no
// namespaces. Call SetNamespaces before a source of the kind emits anything.
func (s *Store) SetNamespaces(namespaces ...string) {
	s.limited = s.limited || len(namespaces) > 0
	for _, namespace := range namespaces {
		s.working.scopes = s.working.scopes.add(namespace)
	}
	s.publishAll()
}

// publishAll shows readers all of working at once, of a store without objects.
func (s *Store) publishAll() {
	trees := s.working.copy()
	s.published.Store(&state{trees, trees.scopes, s.table})
}

// Kind returns the kind of the store's objects.
func (s *Store) Kind() schema.GroupKind { return s.kind }

// Get returns the object of a name, as the API server last reported it, or as an own write left it.
func (s *Store) Get(name types.NamespacedName) (streams.Object, bool) {
	own := s.overlay.published.Load() // Before the state under it: see overlay.
	var held streams.Object
	found := s.published.Load().table.find(name)
	if found != nil {
		held = found.get()
	}
	exists := found != nil
	if own != nil {
		held, exists = own.get(name, held)
	}
	if s.mutations != nil && exists {
		s.mutations.noteReads(held)
	}
	return held, exists
}

// List returns the objects of a namespace, or of all if namespace is empty, by namespace and name.
func (s *Store) List(namespace string) []streams.Object {
	objects := s.read(func(v *view, visit func(*slot)) { v.scan(namespace, visit) })
	s.mutations.noteReads(objects...)
	return objects
}

// ByIndex returns the objects that have a value in an index, by namespace and name. It returns none
// if the store does not have the index.
func (s *Store) ByIndex(index, value string) []streams.Object {
	objects := s.read(func(v *view, visit func(*slot)) { v.scanIndex(index, value, visit) })
	s.mutations.noteReads(objects...)
	return objects
}

// Indexes returns the names of the store's indexes.
func (s *Store) Indexes() []string {
	var names []string
	for _, indexer := range s.published.Load().indexers {
		names = append(names, indexer.Name)
	}
	return names
}

// ValuesOf returns the values of an object in an index. It returns none if the store does not have the
// index.
func (s *Store) ValuesOf(index string, object streams.Object) []string {
	for _, indexer := range s.published.Load().indexers {
		if indexer.Name == index {
			return indexer.Values(object, nil)
		}
	}
	return nil
}

// Len returns the number of objects that the sources have reported, without own writes.
func (s *Store) Len() int { return s.published.Load().objects.Len() }

// Bytes estimates the memory that the objects take, with their places in the store.
func (s *Store) Bytes() int64 { return s.sizes.bytes(s.Len(), len(s.published.Load().indexers)) }

// AverageBytes estimates the memory of one object, without its place in the store. It costs one atomic load.
func (s *Store) AverageBytes() int { return int(s.sizes.average.Load()) }

// Version returns the resource version up to which the store has seen everything. It is the oldest
// version of its sources.
func (s *Store) Version() string {
	oldest := ""
	for i, scope := range s.published.Load().scopes {
		if i == 0 || scope.version == "" || streams.IsOlderVersion(scope.version, oldest) {
			oldest = scope.version
		}
	}
	return oldest
}

// read collects what a scan finds, with the overlay over it.
func (s *Store) read(scan func(*view, func(*slot))) []streams.Object {
	own := s.overlay.published.Load()
	base := s.published.Load()
	var objects []streams.Object
	if own == nil {
		scan(base.view, func(found *slot) { objects = append(objects, found.get()) })
		return objects
	}
	var written []*slot
	scan(own.view, func(found *slot) { written = append(written, found) })
	addWritten := func() {
		name := written[0].name()
		var held streams.Object
		// Not the table: it may have the event of this write already, which base does not have.
		if known := base.view.find(name); known != nil {
			held = known.get()
		}
		// The watch may have passed the write, with a state that has other index values.
		if visible, found := own.get(name, held); found && visible == written[0].get() {
			objects = append(objects, visible)
		}
		written = written[1:]
	}
	scan(base.view, func(found *slot) {
		name, held := found.name(), found.get()
		for len(written) > 0 && compareNames(written[0].name(), name) < 0 {
			addWritten()
		}
		wrote := len(written) > 0 && written[0].name() == name
		if wrote {
			written = written[1:]
		}
		// An own write that the scan of the overlay did not find has other index values.
		if visible, exists := own.get(name, held); exists && (wrote || visible == held) {
			objects = append(objects, visible)
		}
	})
	for len(written) > 0 {
		addWritten()
	}
	return objects
}
