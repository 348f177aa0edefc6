package cache

import (
	"reflect"
	"sync"

	"github.com/bellerophon-io/bellerophon/streams"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Mutation is an object of the cache that somebody has changed, which corrupts what all
// others read.
type Mutation struct {
	Key           streams.Key
	Before, After streams.Object
}

// mutations compares objects with copies of themselves. It is for tests: it doubles the
// memory, and each look compares what was read.
type mutations struct {
	mu    sync.Mutex
	held  map[streams.Object]watched
	read  map[streams.Object]bool // since the last look
	found []Mutation
}

type watched struct {
	key  streams.Key
	copy streams.Object
}

// DetectMutations has the cache keep a copy of each object, for Mutations to compare. Call
// it before the cache is used, in tests.
func (c *Cache) DetectMutations() {
	c.mutations = &mutations{held: map[streams.Object]watched{}, read: map[streams.Object]bool{}}
	for _, store := range c.Stores() {
		store.mutations = c.mutations
	}
}

// Mutations is the objects that were changed, if DetectMutations was called, of those that
// were read or replaced since the last call. It may be called from any goroutine.
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

// came notes an object that readers may get. A nil m notes nothing.
func (m *mutations) came(key streams.Key, object streams.Object) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, known := m.held[object]; !known {
		m.held[object] = watched{key, object.DeepCopyObject().(streams.Object)}
	}
}

// reads notes objects that somebody has read.
func (m *mutations) reads(objects ...streams.Object) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, object := range objects {
		m.read[object] = true
	}
}

// went notes an object that readers get no more.
func (m *mutations) went(object streams.Object) {
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

// forget takes a last look at the objects of a kind.
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

// compare notes an object that was changed, once.
func (m *mutations) compare(object streams.Object) {
	known := m.held[object]
	if reflect.DeepEqual(known.copy, object) {
		return
	}
	after := object.DeepCopyObject().(streams.Object)
	m.found = append(m.found, Mutation{known.key, known.copy, after})
	m.held[object] = watched{known.key, after}
}
