package store

import (
	"strings"
	"sync"

	"github.com/tidwall/btree"
)

// Entry is a key with its value.
type Entry struct {
	Key   string
	Value []byte // must not be changed
	// Revision is the revision of the store at the last change of this key.
	Revision uint64
}

// Store holds the keys of a cluster. Create it with [New]. Its methods may be called from any goroutine.
type Store struct {
	mu       sync.RWMutex
	entries  *btree.Map[string, Entry]
	revision uint64
	bytes    int64 // of keys and values
	feed     *feed
	restored string  // the sum of the snapshot that was last restored
	staged   *staged // nil if there are none
}

// New creates an empty store.
func New() *Store { return &Store{entries: &btree.Map[string, Entry]{}, feed: newFeed(0)} }

// Apply carries out a command that has been validated. The outcome depends on nothing but the commands so far.
func (s *Store) Apply(c Command) Result {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ageStaged(c)
	switch c.Kind {
	case Stage:
		return s.stage(c)
	case Replace:
		return s.replace(c)
	}
	held, exists := s.entries.Get(c.Key)
	if c.If != nil && *c.If != held.Revision {
		return Result{Revision: s.revision, Key: held.Revision, Refused: true}
	}
	if c.Kind == Delete && !exists {
		return Result{Revision: s.revision}
	}
	s.revision++
	if exists {
		s.bytes -= held.size()
	}
	if c.Kind == Delete {
		s.entries.Delete(c.Key)
		s.feed.add(Event{Kind: Delete, Entry: Entry{Key: c.Key, Revision: s.revision}})
		return Result{Revision: s.revision, Changed: true}
	}
	entry := Entry{Key: c.Key, Value: c.Value, Revision: s.revision}
	s.bytes += entry.size()
	s.entries.Set(c.Key, entry)
	s.feed.add(Event{Kind: Put, Entry: entry})
	return Result{Revision: s.revision, Key: s.revision, Changed: true}
}

// Get returns the entry of a key, and whether it exists. It also returns the revision of the store.
func (s *Store) Get(key string) (entry Entry, revision uint64, exists bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	entry, exists = s.entries.Get(key)
	return entry, s.revision, exists
}

// pageBytes is how many bytes of keys and values a page may have before its last entry.
const pageBytes = 4 << 20

// List returns up to limit entries whose keys begin with prefix and follow after, ordered by key. It returns
// fewer if their values are large. It also returns the revision of the store, and whether there are more
// entries. All of them are of one moment.
func (s *Store) List(prefix, after string, limit int) (entries []Entry, revision uint64, more bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var bytes int64
	s.entries.Ascend(max(prefix, after), func(key string, entry Entry) bool {
		switch {
		case key == after && after != "":
			return true
		case !strings.HasPrefix(key, prefix):
			return key < prefix
		case len(entries) == limit || bytes > pageBytes:
			more = true
			return false
		}
		entries, bytes = append(entries, entry), bytes+entry.size()
		return true
	})
	return entries, s.revision, more
}

// Size is the amount of data in a store.
type Size struct {
	Keys     int
	Bytes    int64 // of keys and values
	Revision uint64
}

// Size returns the amount of data.
func (s *Store) Size() Size {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return Size{Keys: s.entries.Len(), Bytes: s.bytes, Revision: s.revision}
}

func (e Entry) size() int64 { return int64(len(e.Key) + len(e.Value)) }
