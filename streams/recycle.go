package streams

import (
	"math/bits"
	"reflect"
	"sync"
)

// Batches with a capacity of 1<<leastClass to 1<<mostClass values are recycled.
const (
	leastClass = 3
	mostClass  = 14
)

// batches holds the free batches of one type in pools. Pool n has batches with a capacity of at
// least 1<<(n+leastClass) values.
type batches [mostClass - leastClass + 1]sync.Pool

// recycled maps the type of the values to the *batches of that type.
var recycled sync.Map

func recycledOf[T any]() *batches {
	kind := reflect.TypeFor[T]()
	if known, found := recycled.Load(kind); found {
		return known.(*batches)
	}
	known, _ := recycled.LoadOrStore(kind, &batches{})
	return known.(*batches)
}

// NewBatch returns an empty batch with a capacity of at least room values, perhaps a recycled one.
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

// NextRoom returns a guess for the room of the next batch, from the guess for a batch and its length. The guess falls
// slowly: a batch that outgrows its room is copied, and one that is too large costs little.
func NextRoom(guess, length int) int { return max(length, guess-guess/8) }

// Recycle gives a batch back to [NewBatch]. The receiver of a batch may call it once, when the
// slice is no longer in use; the values may live on. Recycling halves the allocations of a busy
// pipeline, and with them the work of the garbage collector.
func Recycle[T any](batch []T) {
	class := bits.Len(uint(cap(batch))) - 1
	if class < leastClass || class > mostClass {
		return
	}
	clear(batch)
	batch = batch[:0]
	recycledOf[T]()[class-leastClass].Put(&batch)
}

// grown appends values to a batch. A batch that is too small is recycled and replaced by one of at
// least twice its length.
func grown[T any](batch []T, values ...T) []T {
	if len(batch)+len(values) > cap(batch) {
		larger := append(NewBatch[T](max(2*len(batch), len(batch)+len(values))), batch...)
		Recycle(batch)
		batch = larger
	}
	return append(batch, values...)
}
