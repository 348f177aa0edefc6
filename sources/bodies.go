package sources

import (
	"bytes"
	"sync"
	"sync/atomic"

	"github.com/bellerophon-io/bellerophon/streams"
	"k8s.io/apimachinery/pkg/runtime"
)

// bodiesKept bounds the bodies that wait for their objects. A watch hands an object on before it decodes the next but one.
const bodiesKept = 16

// bodies holds the JSON of the last objects that watches of a kind have decoded: see WatchOptions.OnObject. An object is
// found by its address.
type bodies struct {
	wanted atomic.Bool

	mu   sync.Mutex
	last [bodiesKept]struct {
		of   runtime.Object
		json []byte
	}
	next int
}

// keep keeps the body of an object, if a watch wants bodies. The data belongs to the caller.
func (b *bodies) keep(object runtime.Object, data []byte) {
	if b == nil || !b.wanted.Load() || len(data) == 0 || data[0] != '{' {
		return
	}
	held := bytes.Clone(data)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.last[b.next].of, b.last[b.next].json = object, held
	b.next = (b.next + 1) % bodiesKept
}

// take returns the body of an object and forgets it, or returns nil.
func (b *bodies) take(object streams.Object) (body []byte) {
	if b == nil {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range b.last {
		if held := &b.last[i]; held.of != nil && held.of == runtime.Object(object) {
			body, held.of, held.json = held.json, nil, nil
			return body
		}
	}
	return nil
}
