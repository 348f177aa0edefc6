package streams

import (
	"context"
	"fmt"
	"sync"
)

const (
	defaultShareBuffer = 1 << 10
	maxShareBuffer     = 1 << 20
)

// ShareOptions configures [Share]. Set both Fold and Replay, or neither; with neither, there are no
// snapshots.
type ShareOptions[T, S any] struct {
	// Fold applies a batch to the state that snapshots are made from. The first state is the zero
	// S. Fold may change and return the state that it gets. The batch is shared: Fold must neither
	// change nor keep the slice.
	Fold func(state S, batch []T) S

	// Replay returns the values of the snapshot of a state. The slice belongs to the receiver.
	// Nothing is published while Replay runs, so it should only copy.
	Replay func(state S) []T

	// Buffer is the number of values that may wait for the slowest observer that does not lag, from
	// 1 to 1048576; 0 means 1024. Share keeps these values and the state, regardless of the number
	// of observers. A batch that is larger than Buffer waits alone.
	Buffer int
}

// Lagged is the error that an observer of [Share] or [Subject] receives when it has fallen behind
// the buffer. The missed items are lost. With Fold and Replay, a snapshot follows that replaces the
// missed values. Nothing replaces missed errors.
type Lagged struct {
	Missed int // values
	Errors int // notifications of failures
}

func (l *Lagged) Error() string {
	return fmt.Sprintf("the observer was too slow and missed %d values and %d errors; read faster or raise the buffer", l.Missed, l.Errors)
}

// Share lets any number of observers share one observation of the input. That observation starts
// with the first observer, and has ended when the channel of the last observer is closed. The next
// observer starts a new observation with a new state; two observations never overlap. The context
// of the input has the values of the first observer's context, but does not end with it.
//
// An observer gets a snapshot, if it is not empty. It then gets every value and error that follows
// the snapshot, in order, and none twice. An observer that falls behind the buffer loses its place:
// when it reads again, it gets a [Lagged], a new snapshot, and what follows that snapshot. It never
// delays the other observers. The input waits only while all observers are a buffer behind, so the
// fastest observer, or a single one, misses nothing.
//
// When the input ends, each observation ends after the items that wait for it. A panic of Fold
// becomes an error and ends the input, and with it all observations. Share panics if the options
// are invalid.
//
//	[a] [b], the first from the start, the second after a  =>  [a] [b] and [snapshot of a] [b]
func Share[T, S any](in Stream[T], options ShareOptions[T, S]) Stream[T] {
	if options.Buffer == 0 {
		options.Buffer = defaultShareBuffer
	}
	if options.Buffer < 1 || options.Buffer > maxShareBuffer {
		panic(fmt.Sprintf("streams.Share: Buffer must be 1 to %d, not %d", maxShareBuffer, options.Buffer))
	}
	if (options.Fold == nil) != (options.Replay == nil) {
		panic("streams.Share: Fold and Replay must be set both or not at all")
	}
	s := &shared[T, S]{in: in, options: options}
	return Create(func(ctx context.Context, out Sink[T]) {
		if o := s.join(ctx); o != nil {
			defer s.leave(o)
			o.serve(ctx, out)
		}
	})
}

// shared is the state that the observers of one Share have in common.
type shared[T, S any] struct {
	in      Stream[T]
	options ShareOptions[T, S]

	mu  sync.Mutex // Locked before the mutex of a run.
	run *shareRun[T, S]
}

// join subscribes to the current run, or starts one. If the last observer has just left the run,
// join waits for the run to end first. It returns nil if ctx ends.
func (s *shared[T, S]) join(ctx context.Context) *shareObserver[T, S] {
	for {
		o, gone := s.tryJoin(ctx)
		if o != nil {
			return o
		}
		select {
		case <-gone:
		case <-ctx.Done():
			return nil
		}
	}
}

// tryJoin joins without waiting. If it has to wait, it returns a nil observer and the channel to
// wait for.
func (s *shared[T, S]) tryJoin(ctx context.Context) (o *shareObserver[T, S], gone <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.run != nil && !s.run.hasEnded() {
		return s.run.subscribe(), s.run.gone
	}
	run := &shareRun[T, S]{options: s.options, gone: make(chan struct{})}
	o = run.subscribe() // Before start, so that it misses no value.
	run.start(ctx, s.in)
	s.run = run
	return o, nil
}

// leave ends an observation. The last observer to leave ends the input and waits for it.
func (s *shared[T, S]) leave(o *shareObserver[T, S]) {
	if !o.unsubscribe() {
		return
	}
	o.run.stop()
	s.mu.Lock()
	if s.run == o.run {
		s.run = nil
	}
	s.mu.Unlock()
	close(o.run.gone)
}
