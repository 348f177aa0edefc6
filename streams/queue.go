package streams

import (
	"context"
	"sync"
	"sync/atomic"
)

// maxGuess bounds the capacity that a queue allocates for the next batch.
const maxGuess = 1 << 12

// queueLimit is the number of values that a queue holds before Put waits. In the pipeline, the
// queue never stays full for long, because the stage behind it conflates.
const queueLimit = 1 << 14

// Queue passes values from callbacks into a stream. Values that are put before the receiver takes
// them form one batch. Create it with [NewQueue]. Put and Error may be called from any goroutine.
//
// A queue has no goroutine of its own. The first Put after the receiver took a batch sends an item
// that stands for the next batch. Later calls of Put add to that batch until the receiver takes it.
type Queue[T any] struct {
	// Held counts the values and errors that the receiver has not taken yet. It is optional, and
	// must be set before the queue is used.
	Held *atomic.Int64

	mu    sync.Mutex
	parts []part[T] // each has one item in flight while the queue is drained
	held  int       // values and errors in parts
	size  int       // a guess for the next part: see NextRoom
	out   *Sink[T]  // nil unless the queue is drained
	sends sync.WaitGroup
	room  chan struct{} // closed when there is room; nil while no Put waits for room
}

// part is a batch in the making. An error follows its values and completes it.
type part[T any] struct {
	values []T
	err    error
}

// NewQueue creates an empty queue.
func NewQueue[T any]() *Queue[T] { return &Queue[T]{} }

// Put adds values. It waits only while the queue is full, or while the channel of the receiver is
// full of other items. It returns false if ctx ended before there was room.
func (q *Queue[T]) Put(ctx context.Context, values ...T) bool {
	q.mu.Lock()
	if last := len(q.parts) - 1; last >= 0 && q.parts[last].err == nil && q.held < queueLimit { // as in add, without its call
		q.parts[last].values = grown(q.parts[last].values, values...)
		q.hold(len(values))
		q.mu.Unlock()
		return true
	}
	q.mu.Unlock()
	return q.add(ctx, func(last *part[T]) int {
		if last.values == nil {
			last.values = NewBatch[T](max(len(values), min(q.size, maxGuess)))
		}
		last.values = grown(last.values, values...)
		return len(values)
	})
}

// Error adds an error notification. It waits, and returns false, as Put does.
func (q *Queue[T]) Error(ctx context.Context, err error) bool {
	return q.add(ctx, func(last *part[T]) int {
		last.err = err
		return 1
	})
}

// add calls to with the last part. If that is complete or absent, add starts a new part and sends
// an item for it.
func (q *Queue[T]) add(ctx context.Context, to func(last *part[T]) int) bool {
	q.mu.Lock()
	for q.held >= queueLimit {
		if q.room == nil {
			q.room = make(chan struct{})
		}
		room := q.room
		q.mu.Unlock()
		select {
		case <-room:
		case <-ctx.Done():
			return false
		}
		q.mu.Lock()
	}
	if last := len(q.parts) - 1; last >= 0 && q.parts[last].err == nil {
		q.hold(to(&q.parts[last]))
		q.mu.Unlock()
		return true
	}
	q.parts = append(q.parts, part[T]{})
	q.hold(to(&q.parts[len(q.parts)-1]))
	out := q.out
	if out != nil {
		q.sends.Add(1)
	}
	q.mu.Unlock()
	if out != nil {
		defer q.sends.Done()
		out.forward(out.item(partOf[T]{q}))
	}
	return true
}

// hold adds to the count of held values and errors. The caller holds the lock.
func (q *Queue[T]) hold(more int) {
	q.held += more
	if q.Held != nil {
		q.Held.Add(int64(more))
	}
}

// partOf stands for the part of a queue that is the first one when the receiver unpacks the item.
type partOf[T any] struct{ queue *Queue[T] }

func (p partOf[T]) take() ([]T, error) {
	q := p.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	first := q.parts[0]
	q.parts[0] = part[T]{}
	if q.parts = q.parts[1:]; len(q.parts) == 0 {
		q.parts = nil
	}
	q.size = NextRoom(q.size, len(first.values))
	held := len(first.values)
	if first.err != nil {
		held++
	}
	q.hold(-held)
	wake(&q.room)
	return first.values, first.err
}

// Drain sends the values of the queue to a sink until ctx ends. Only one observation at a time may
// drain a queue. Values that its receiver has not taken are left to the next observation.
func (q *Queue[T]) Drain(ctx context.Context, out Sink[T]) {
	q.mu.Lock()
	q.out = &out
	parts := len(q.parts)
	q.mu.Unlock()
	for range parts {
		if !out.forward(out.item(partOf[T]{q})) {
			break
		}
	}
	<-ctx.Done()
	q.mu.Lock()
	q.out = nil
	q.mu.Unlock()
	q.sends.Wait() // A sink must not be used after its observation.
}
