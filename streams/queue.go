package streams

import (
	"context"
	"sync"
	"sync/atomic"
)

// maxGuess bounds what a queue sets aside for the next batch.
const maxGuess = 1 << 12

// queueLimit is how many values a queue holds before Put waits. Behind a merge that
// conflates, as the pipeline's does, it is never reached for long.
const queueLimit = 1 << 14

// Queue is where values enter a stream from callbacks: what is put until the receiver
// takes it is one batch. Make it with [NewQueue]. Put and Error may be called from any
// goroutine.
//
// A queue has no goroutine between those who put and the receiver: who puts first sends
// an item that stands for a part, and the receiver finds in it all that is there by then.
type Queue[T any] struct {
	// Held, if it is set before the queue is used, is how many values and errors nobody has
	// taken yet.
	Held *atomic.Int64

	mu    sync.Mutex
	parts []part[T] // each has one item on its way, while the queue is drained
	held  int       // values and errors in parts
	size  int       // of the part taken last, as a guess for the next
	out   *Sink[T]  // while the queue is drained
	sends sync.WaitGroup
	room  chan struct{} // is closed when there is room; nil while nobody waits for that
}

// part is values, and perhaps an error behind them, which ends it.
type part[T any] struct {
	values []T
	err    error
}

// NewQueue makes an empty queue.
func NewQueue[T any]() *Queue[T] { return &Queue[T]{} }

// Put hands over values. It waits only while the queue is full, or the receiver has not
// taken what others sent it; it is false when ctx ended before there was room.
func (i *Queue[T]) Put(ctx context.Context, values ...T) bool {
	return i.add(ctx, func(last *part[T]) int {
		if last.values == nil {
			last.values = NewBatch[T](max(len(values), min(i.size, maxGuess)))
		}
		last.values = grown(last.values, values...)
		return len(values)
	})
}

// Error hands over a notification of a failure. It waits as Put does.
func (i *Queue[T]) Error(ctx context.Context, err error) bool {
	return i.add(ctx, func(last *part[T]) int {
		last.err = err
		return 1
	})
}

// add adds to the last part, or to a new one, for which it sends an item.
func (i *Queue[T]) add(ctx context.Context, to func(last *part[T]) int) bool {
	i.mu.Lock()
	for i.held >= queueLimit {
		if i.room == nil {
			i.room = make(chan struct{})
		}
		room := i.room
		i.mu.Unlock()
		select {
		case <-room:
		case <-ctx.Done():
			return false
		}
		i.mu.Lock()
	}
	if last := len(i.parts) - 1; last >= 0 && i.parts[last].err == nil {
		i.hold(to(&i.parts[last]))
		i.mu.Unlock()
		return true
	}
	i.parts = append(i.parts, part[T]{})
	i.hold(to(&i.parts[len(i.parts)-1]))
	out := i.out
	if out != nil {
		i.sends.Add(1)
	}
	i.mu.Unlock()
	if out != nil {
		defer i.sends.Done()
		out.forward(out.item(partOf[T]{i}))
	}
	return true
}

// hold counts what is held. The lock is held.
func (i *Queue[T]) hold(more int) {
	i.held += more
	if i.Held != nil {
		i.Held.Add(int64(more))
	}
}

// partOf stands for the first part of a queue when it is taken apart.
type partOf[T any] struct{ queue *Queue[T] }

func (p partOf[T]) take() ([]T, error) {
	i := p.queue
	i.mu.Lock()
	defer i.mu.Unlock()
	first := i.parts[0]
	i.parts[0] = part[T]{}
	if i.parts = i.parts[1:]; len(i.parts) == 0 {
		i.parts = nil
	}
	i.size = len(first.values)
	held := len(first.values)
	if first.err != nil {
		held++
	}
	i.hold(-held)
	wake(&i.room)
	return first.values, first.err
}

// Drain sends what is put to a sink, until ctx ends. One observation at a time drains an
// queue. What its receiver has not taken is for the next.
func (i *Queue[T]) Drain(ctx context.Context, out Sink[T]) {
	i.mu.Lock()
	i.out = &out
	parts := len(i.parts)
	i.mu.Unlock()
	for range parts {
		if !out.forward(out.item(partOf[T]{i})) {
			break
		}
	}
	<-ctx.Done()
	i.mu.Lock()
	i.out = nil
	i.mu.Unlock()
	i.sends.Wait() // A sink is not to be used after its observation.
}
