package cache

import (
	"sync/atomic"

	"github.com/bellerophon-io/bellerophon/streams"
)

// Of the objects that are put into a store, the first ones are measured, then one of many:
// that costs little, and follows what changes.
const (
	firstSizes  = 32
	sizesEvery  = 256
	sizesWeight = 32 // how many measurements count
)

// Bytes that the place of an object takes besides the object: its slot, a cell of the table
// and an item of each tree, as filled as they are on average.
const (
	slotBytes  = 16 + 12 + 19
	indexBytes = 51
)

// sizes estimates how large objects are.
type sizes struct {
	seen    int // by the writer
	count   int
	average atomic.Int64
}

func (s *sizes) sample(object streams.Object) {
	s.seen++
	if s.seen > firstSizes && s.seen%sizesEvery != 0 {
		return
	}
	s.count = min(s.count+1, sizesWeight)
	average := s.average.Load()
	s.average.Store(average + (int64(SizeOf(object))-average)/int64(s.count))
}

func (s *sizes) bytes(objects, indexes int) int64 {
	return int64(objects) * (s.average.Load() + slotBytes + indexBytes*int64(indexes))
}
