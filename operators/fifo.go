package operators

import "slices"

// fifo is a queue in a slice that is reused.
type fifo[T any] struct {
	items []T
	first int // index of the first element in items
}

func (f *fifo[T]) len() int { return len(f.items) - f.first }

// all returns the elements of the queue, in order. The slice is valid until the queue changes.
func (f *fifo[T]) all() []T { return f.items[f.first:] }

// peek returns the first element. The queue must not be empty.
func (f *fifo[T]) peek() T { return f.items[f.first] }

// clear removes all elements.
func (f *fifo[T]) clear() {
	if f.len() > 0 {
		f.filter(func(T) bool { return false })
	}
}

func (f *fifo[T]) push(item T) {
	if len(f.items) == cap(f.items) && f.first > len(f.items)/2 {
		f.items = slices.Delete(f.items, 0, f.first)
		f.first = 0
	}
	f.items = append(f.items, item)
}

func (f *fifo[T]) pop() T {
	item := f.items[f.first]
	clear(f.items[f.first : f.first+1])
	f.first++
	f.shrink()
	return item
}

// shrink starts at the beginning of the slice again when the queue is empty. It moves to a smaller
// slice when the slice is far too large.
func (f *fifo[T]) shrink() {
	if f.len() == 0 {
		f.items, f.first = f.items[:0], 0
	}
	if sparse(f.len(), cap(f.items), itemsKept) {
		f.items, f.first = append(make([]T, 0, 2*f.len()), f.all()...), 0
	}
}

func (f *fifo[T]) remove(i int) {
	if i == 0 {
		f.pop()
		return
	}
	f.items = slices.Delete(f.items, f.first+i, f.first+i+1)
}

// filter keeps the elements for which keep returns true, in order.
func (f *fifo[T]) filter(keep func(T) bool) {
	kept := f.items[:f.first]
	for _, item := range f.all() {
		if keep(item) {
			kept = append(kept, item)
		}
	}
	clear(f.items[len(kept):])
	f.items = kept
	f.shrink()
}
