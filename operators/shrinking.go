package operators

// A map or slice with more room than this is replaced when it is much emptier than it was. Go's
// maps and slices never shrink. Maps keep more: where 10,000 keys come and go, a map that is
// replaced again and again took 7 % of the CPU of BenchmarkPipeline.
const (
	itemsKept = 1 << 12 // in a slice
	keysKept  = 1 << 14 // in a map
)

// sparse reports whether a map or slice has far too much room for its items. It is then less than
// an eighth full, so that replacing it costs little for each item that left.
func sparse(items, room, kept int) bool { return room > kept && items < room/8 }

// table is a map that shrinks.
type table[K comparable, V any] struct {
	items map[K]V
	peak  int // the most items that this map has had
}

func (t *table[K, V]) get(key K) V { return t.items[key] }
func (t *table[K, V]) len() int    { return len(t.items) }

func (t *table[K, V]) set(key K, value V) {
	if t.items == nil {
		t.items = map[K]V{}
	}
	t.items[key] = value
	t.peak = max(t.peak, len(t.items))
}

// delete removes a key. It may be called for the item that a loop over items is visiting.
func (t *table[K, V]) delete(key K) {
	delete(t.items, key)
	if !sparse(len(t.items), t.peak, keysKept) {
		return
	}
	smaller := make(map[K]V, 2*len(t.items))
	for key, value := range t.items {
		smaller[key] = value
	}
	t.items, t.peak = smaller, len(smaller)
}

// shrunk returns items in a smaller slice, if their slice is far too large.
func shrunk[T any](items []T) []T {
	if !sparse(len(items), cap(items), itemsKept) {
		return items
	}
	return append(make([]T, 0, 2*len(items)), items...)
}
