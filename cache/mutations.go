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
// each end of a reader compares all that may still be in the hands of readers.
type mutations struct {
	mu      sync.Mutex
	held    map[streams.Object]watched
	begun   int                    // how many readers have begun
	reading map[int]bool           // the readers that have not ended, by their numbers
	read    map[streams.Object]int // how many readers had begun when an object was last read
	found   []Mutation
}

type watched struct {
	key  streams.Key
	copy streams.Object
}

// DetectMutations makes the cache keep a copy of each object, to compare. Call it before the cache is used, in tests.
func (c *Cache) DetectMutations() {
	c.mutations = &mutations{held: map[streams.Object]watched{}, reading: map[int]bool{}, read: map[streams.Object]int{}}
	for _, store := range c.Stores() {
		store.mutations = c.mutations
	}
}

// BeginReads begins a reader, such as a reconcile. The returned function ends it, and checks all objects that
// readers may have. An object is checked until each reader that had begun when it was read has ended. Both may
// be called from any goroutine, and the second call of the returned function does nothing.
func (c *Cache) BeginReads() (end func()) {
	m := c.mutations
	if m == nil {
		return func() {}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.begun++
	number := m.begun
	m.reading[number] = true
	return func() { m.end(number) }
}

// Mutations returns the objects that were changed, once each, if DetectMutations was called. It may be called
// from any goroutine.
func (c *Cache) Mutations() []Mutation {
	m := c.mutations
	if m == nil {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	found := m.found
	m.found = nil
	return found
}

// end ends a reader.
func (m *mutations) end(number int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.reading[number] {
		return
	}
	delete(m.reading, number)
	oldest := m.begun + 1
	for other := range m.reading {
		oldest = min(oldest, other)
	}
	for object, begun := range m.read {
		if _, known := m.held[object]; known {
			m.compare(object)
		}
		if begun < oldest { // No reader of it is left.
			delete(m.read, object)
		}
	}
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
		m.read[object] = m.begun
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
