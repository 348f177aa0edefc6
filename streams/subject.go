package streams

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
)

// Subject is a stream that is fed by calls (ReactiveX: PublishSubject). Create it with
// [NewSubject]. Its methods may be called from any goroutine.
//
// A send never waits for an observer. An observer that falls behind the buffer loses its place:
// it gets a [Lagged] and continues with the next value that is sent.
type Subject[T any] struct {
	run      *shareRun[T, struct{}]
	observed atomic.Int64
}

// NewSubject creates a subject. buffer is how many values may wait for the slowest observer that
// is not lagging, from 1 to 1048576; 0 is 1024. A batch that is larger waits alone. NewSubject
// panics if buffer is out of its range.
func NewSubject[T any](buffer int) *Subject[T] {
	if buffer == 0 {
		buffer = defaultShareBuffer
	}
	if buffer < 1 || buffer > maxShareBuffer {
		panic(fmt.Sprintf("streams.NewSubject: buffer must be 1 to %d, not %d", maxShareBuffer, buffer))
	}
	return &Subject[T]{run: &shareRun[T, struct{}]{options: ShareOptions[T, struct{}]{Buffer: buffer}}}
}

// Observed reports whether the subject has an observer. A send without one does nothing.
func (s *Subject[T]) Observed() bool { return s.observed.Load() > 0 }

// Send sends a copy of a batch to the observers.
func (s *Subject[T]) Send(batch []T) {
	if len(batch) > 0 && s.Observed() {
		s.run.force(shareEntry[T]{batch: slices.Clone(batch)})
	}
}

// Error sends a notification of a failure to the observers.
func (s *Subject[T]) Error(err error) {
	if s.Observed() {
		s.run.force(shareEntry[T]{err: err})
	}
}

// End ends all observations after what waits for them, and those that start later at once.
func (s *Subject[T]) End() { s.run.end() }

// Stream returns what is sent while it is observed. Each observation gets every value and error,
// in order, unless it lags.
//
//	(send a) (observe) (send b) (send c) (end)  =>  [b] [c]
func (s *Subject[T]) Stream() Stream[T] {
	return Create(func(ctx context.Context, out Sink[T]) {
		observer := s.run.subscribe()
		s.observed.Add(1)
		defer observer.unsubscribe()
		defer s.observed.Add(-1)
		observer.serve(ctx, out)
	})
}
