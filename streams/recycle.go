package streams

import (
	"math/bits"
	"reflect"
	"sync"
)

// Batches with room for 1<<leastClass to 1<<mostClass values are kept for use again.
const (
	leastClass = 3
	mostClass  = 14
)

// batches is the batches of one type that are kept, by class: those of class n have room for
// 1<<(n+leastClass) values, or more.
type batches [mostClass - leastClass + 1]sync.Pool

// recycled is the batches of each type of values.
var recycled sync.Map

func recycledOf[T any]() *batches {
	kind := reflect.TypeFor[T]()
	if known, found := recycled.Load(kind); found {
		return known.(*batches)
	}
	known, _ := recycled.LoadOrStore(kind, &batches{})
	return known.(*batches)
}

// NewBatch is an empty batch with room for some values, perhaps a recycled one.
func NewBatch[T any](room int) []T {
	class := max(bits.Len(uint(max(room, 1)-1)), leastClass)
	if class > mostClass {
		return make([]T, 0, room)
	}
	if held, _ := recycledOf[T]()[class-leastClass].Get().(*[]T); held != nil {
		return *held
	}
	return make([]T, 0, 1<<class)
}

// Recycle gives a batch back to [NewBatch]. Who has received a batch may do so, once, when
// nobody uses the slice any more; its values may live on. It halves what a busy pipeline
// allocates, and with that the work of the garbage collector.
func Recycle[T any](batch []T) {
	class := bits.Len(uint(cap(batch))) - 1
	if class < leastClass || class > mostClass {
		return
	}
	clear(batch)
	batch = batch[:0]
	recycledOf[T]()[class-leastClass].Put(&batch)
}

// grown is a batch with values appended, in which there is room for twice as many if there
// was not enough.
func grown[T any](batch []T, values ...T) []T {
	if len(batch)+len(values) > cap(batch) {
		larger := append(NewBatch[T](max(2*len(batch), len(batch)+len(values))), batch...)
		Recycle(batch)
		batch = larger
	}
	return append(batch, values...)
}
