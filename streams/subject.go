package streams

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
)

// Subject is a stream whose values are sent by calls of Send (ReactiveX: PublishSubject). Create it
// with [NewSubject]. Its methods may be called from any goroutine.
//
// Send never waits for an observer. An observer that falls behind the buffer loses its place: it
// gets a [Lagged] error and continues with the next value that is sent.
type Subject[T any] struct {
	run      *shareRun[T, struct{}]
	observed atomic.Int64
}

// NewSubject creates a subject. buffer is the number of values that may wait for the slowest
// observer that does not lag: 1 to 1048576; 0 stands for 1024. A batch larger than that waits alone.
// NewSubject panics if buffer is out of its range.
func NewSubject[T any](buffer int) *Subject[T] {
	if buffer == 0 {
		buffer = defaultShareBuffer
	}
	if buffer < 1 || buffer > maxShareBuffer {
		panic(fmt.Sprintf("streams.NewSubject: buffer must be 1 to %d, not %d", maxShareBuffer, buffer))
	}
	return &Subject[T]{run: &shareRun[T, struct{}]{options: ShareOptions[T, struct{}]{Buffer: buffer}}}
}

// Observed reports whether the subject has an observer. Without one, Send and Error do nothing.
func (s *Subject[T]) Observed() bool { return s.observed.Load() > 0 }

// Send sends a copy of a batch to the observers. The batch stays the caller's.
func (s *Subject[T]) Send(batch []T) {
	if len(batch) > 0 && s.Observed() {
		s.run.force(shareEntry[T]{batch: slices.Clone(batch)})
	}
}

// Error sends an error notification to the observers.
func (s *Subject[T]) Error(err error) {
	if s.Observed() {
		s.run.force(shareEntry[T]{err: err})
	}
}

// End ends each observation after the values that wait for it. Observations that start later end at
// once.
func (s *Subject[T]) End() { s.run.end() }

// Stream returns a hot stream: an observation gets every value and error that is sent while it lasts,
// in order, unless it lags.
//
//	(send a) (observe) (send b) (send c) (end)  =>  [b] [c]
func (s *Subject[T]) Stream() Stream[T] {
	return Stream[T]{subscribe: func() func(ctx context.Context, out Sink[T]) {
		observer := s.run.subscribe()
		s.observed.Add(1)
		return func(ctx context.Context, out Sink[T]) {
			defer observer.unsubscribe()
			defer s.observed.Add(-1)
			observer.serve(ctx, out)
		}
	}}
}
