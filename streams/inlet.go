package streams

import (
	"context"
	"sync"

	"github.com/reactivex/rxgo/v2"
)

// inletLimit is how many values an inlet holds before Put waits. Behind a merge that
// conflates, as the pipeline's does, it is never reached for long.
const inletLimit = 1 << 14

// Inlet is where values enter a stream from callbacks: what is put while the receiver
// is busy leaves as one batch. Make it with [NewInlet]. Put and Error may be called
// from any goroutine.
type Inlet[T any] struct {
	mu     sync.Mutex
	queue  []rxgo.Item // batches and errors, in order
	values int
	filled chan struct{} // has a token while queue is not empty
	room   chan struct{} // is closed and replaced whenever queue is taken
}

// NewInlet makes an empty inlet.
func NewInlet[T any]() *Inlet[T] {
	return &Inlet[T]{filled: make(chan struct{}, 1), room: make(chan struct{})}
}

// Put hands over values. It waits only while the inlet is full; it is false when ctx
// ended before there was room.
func (i *Inlet[T]) Put(ctx context.Context, values ...T) bool {
	return i.add(ctx, len(values), func() {
		if last := len(i.queue) - 1; last >= 0 && i.queue[last].E == nil {
			i.queue[last].V = append(i.queue[last].V.([]T), values...)
			return
		}
		i.queue = append(i.queue, rxgo.Item{V: append([]T(nil), values...)})
	})
}

// Error hands over a notification of a failure. It waits as Put does.
func (i *Inlet[T]) Error(ctx context.Context, err error) bool {
	return i.add(ctx, 1, func() { i.queue = append(i.queue, rxgo.Item{E: err}) })
}

func (i *Inlet[T]) add(ctx context.Context, values int, add func()) bool {
	i.mu.Lock()
	for i.values >= inletLimit {
		room := i.room
		i.mu.Unlock()
		select {
		case <-room:
		case <-ctx.Done():
			return false
		}
		i.mu.Lock()
	}
	add()
	i.values += values
	i.mu.Unlock()
	select {
	case i.filled <- struct{}{}:
	default:
	}
	return true
}

// Drain sends what is put to a sink, until ctx ends or sending fails. One observation
// drains an inlet.
func (i *Inlet[T]) Drain(ctx context.Context, out Sink[T]) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-i.filled:
		}
		i.mu.Lock()
		queue := i.queue
		i.queue, i.values = nil, 0
		close(i.room)
		i.room = make(chan struct{})
		i.mu.Unlock()
		for _, item := range queue {
			if !out.forward(item) {
				return
			}
		}
	}
}
