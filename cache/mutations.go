package cache

import (
	"reflect"
	"sync"

	"github.com/bellerophon-io/bellerophon/streams"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Mutation is an object of the cache that a reader has changed. The change corrupts the object for
// all other readers.
type Mutation struct {
	Key           streams.Key
	Before, After streams.Object
}

// mutations compares objects with copies of themselves. It is for tests: it doubles the memory, and
// each call of Mutations compares all that was read.
type mutations struct {
	mu    sync.Mutex
	held  map[streams.Object]watched
	read  map[streams.Object]bool // since the last call of Mutations
	found []Mutation
}

type watched struct {
	key  streams.Key
	copy streams.Object
}

// DetectMutations makes the cache keep a copy of each object, for Mutations to compare. Call it
// before the cache is used, in tests.
func (c *Cache) DetectMutations() {
	c.mutations = &mutations{held: map[streams.Object]watched{}, read: map[streams.Object]bool{}}
	for _, store := range c.Stores() {
		store.mutations = c.mutations
	}
}

// Mutations returns the objects that were changed, if DetectMutations was called. It checks the
// objects that were read or replaced since the last call. It may be called from any goroutine.
func (c *Cache) Mutations() []Mutation {
	m := c.mutations
	if m == nil {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for object := range m.read {
		if _, known := m.held[object]; known {
			m.compare(object)
		}
	}
	clear(m.read)
	found := m.found
	m.found = nil
	return found
}

// track copies an object that readers may get from now on. A nil m does nothing.
func (m *mutations) track(key streams.Key, object streams.Object) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, known := m.held[object]; !known {
		m.held[object] = watched{key, object.DeepCopyObject().(streams.Object)}
	}
}

// noteReads records that objects were read.
func (m *mutations) noteReads(objects ...streams.Object) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, object := range objects {
		m.read[object] = true
	}
}

// untrack checks an object that readers no longer get, and drops its copy.
func (m *mutations) untrack(object streams.Object) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, known := m.held[object]; known {
		m.compare(object)
		m.drop(object)
	}
}

func (m *mutations) drop(object streams.Object) {
	delete(m.held, object)
	delete(m.read, object)
}

// forget checks the objects of a kind for the last time, and drops their copies.
func (m *mutations) forget(kind schema.GroupKind) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for object, known := range m.held {
		if known.key.GroupKind == kind {
			m.compare(object)
			m.drop(object)
		}
	}
}

// compare records an object that was changed, once for each change.
func (m *mutations) compare(object streams.Object) {
	known := m.held[object]
	if reflect.DeepEqual(known.copy, object) {
		return
	}
	after := object.DeepCopyObject().(streams.Object)
	m.found = append(m.found, Mutation{known.key, known.copy, after})
	m.held[object] = watched{known.key, after}
}
