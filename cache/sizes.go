package cache

import (
	"sync/atomic"

	"github.com/bellerophon-io/bellerophon/streams"
)

// The first objects that are put into a store are measured, and then one of many. That costs
// little, and follows changes.
const (
	firstSizes  = 32
	sizesEvery  = 256
	sizesWeight = 32 // how many measurements count
)

// These are the bytes that the place of an object takes in addition to the object: its slot, a cell
// of the table and an item of each tree. Cells and items are counted as full as they are on
// average.
const (
	slotBytes  = 16 + 12 + 19
	indexBytes = 51
)

// sizes estimates how large objects are.
type sizes struct {
	seen    int // only the writer uses it
	count   int
	average atomic.Int64
}

// sample measures an object, if it is one of the first, or the next one of many.
func (s *sizes) sample(object streams.Object) {
	s.seen++
	if s.seen > firstSizes && s.seen%sizesEvery != 0 {
		return
	}
	s.count = min(s.count+1, sizesWeight)
	average := s.average.Load()
	s.average.Store(average + (int64(SizeOf(object))-average)/int64(s.count))
}

// bytes estimates the memory of a number of objects, with their places in the store.
func (s *sizes) bytes(objects, indexes int) int64 {
	return int64(objects) * (s.average.Load() + slotBytes + indexBytes*int64(indexes))
}
