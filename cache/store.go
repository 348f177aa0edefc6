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

// tombstonesRemembered bounds the deletions that a store remembers, to know late events
// of deleted objects when it sees them.
const tombstonesRemembered = 4096

// Store holds the objects of one kind. Get, List and ByIndex may be called from any
// goroutine; they wait for nothing. What they return must not be changed.
type Store struct {
	kind      schema.GroupKind
	log       *slog.Logger
	published atomic.Pointer[view]
	overlay   overlay
	anomalies anomalies
	changed   func()                      // tells the cache that the level may have changed
	echoed    func(latency time.Duration) // tells the cache that the watch has passed an own write

	// The rest belongs to the writer.
	seen       string                        // the newest version of any event
	working    *view                         // what published is a copy of, and what comes on top
	relist     *view                         // the list that is coming in, or nil
	tombstones *lru.Cache[string, tombstone] // it locks itself: the overlay reads it too
}

type tombstone struct {
	uid             types.UID
	resourceVersion string
}

func newStore(kind schema.GroupKind, indexers []Indexer, log *slog.Logger, changed func(), echoed func(time.Duration)) *Store {
	tombstones, err := lru.New[string, tombstone](tombstonesRemembered)
	if err != nil {
		panic(err) // Only for a size below 1.
	}
	s := &Store{
		kind:       kind,
		log:        log.With("kind", kind.String()),
		changed:    changed,
		echoed:     echoed,
		working:    newView(indexers),
		tombstones: tombstones,
	}
	s.published.Store(s.working.copy())
	s.overlay.working = newView(indexers)
	return s
}

// Kind is what the store holds.
func (s *Store) Kind() schema.GroupKind { return s.kind }

// Get is the object of a name, as the API server last told, or as an own write left it.
func (s *Store) Get(name types.NamespacedName) (streams.Object, bool) {
	own := s.overlay.published.Load() // Before the view: see overlay.
	object, found := s.published.Load().objects.Get(keyOf(name))
	if own != nil {
		return own.get(keyOf(name), object, found)
	}
	return object, found
}

// List is the objects of a namespace, or all, if it is empty, by namespace and name.
func (s *Store) List(namespace string) []streams.Object {
	prefix := ""
	if namespace != "" {
		prefix = namespace + separator
	}
	own := s.overlay.published.Load()
	return read(own, s.published.Load(), func(v *view) *tree { return v.objects }, prefix)
}

// ByIndex is the objects that have a value in an index, by namespace and name. Of an
// index that the store does not have it is empty.
func (s *Store) ByIndex(index, value string) []streams.Object {
	own := s.overlay.published.Load()
	return read(own, s.published.Load(), func(v *view) *tree { return v.index(index) }, value+separator)
}

// Len is how many objects the source has told of.
func (s *Store) Len() int { return s.published.Load().objects.Len() }

// Version is the resource version up to which the store has seen everything.
func (s *Store) Version() string { return s.published.Load().version }

// read collects what is under a prefix in a tree of a view, with the overlay over it.
func read(own *ownView, base *view, in func(*view) *tree, prefix string) []streams.Object {
	from := in(base)
	if from == nil {
		return nil
	}
	var objects []streams.Object
	if own == nil {
		scan(from, prefix, func(_ string, object streams.Object) { objects = append(objects, object) })
		return objects
	}
	merged := newView(nil).objects
	scan(from, prefix, func(_ string, object streams.Object) {
		key := keyOf(nameOf(object))
		if visible, found := own.get(key, object, true); found && visible == object {
			merged.Set(key, object)
		}
	})
	scan(in(own.view), prefix, func(_ string, object streams.Object) {
		key := keyOf(nameOf(object))
		held, known := base.objects.Get(key)
		if visible, found := own.get(key, held, known); found && visible == object {
			merged.Set(key, object)
		}
	})
	merged.Scan(func(_ string, object streams.Object) bool {
		objects = append(objects, object)
		return true
	})
	return objects
}
