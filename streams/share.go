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

// ShareOptions set up [Share]. Fold and Replay belong together: with neither, there are
// no snapshots.
type ShareOptions[T, S any] struct {
	// Fold keeps the state that snapshots are made of, from the zero S on. It may change
	// and return the state that it gets. The batch is shared: it must neither change nor
	// keep the slice.
	Fold func(state S, batch []T) S

	// Replay says a state in values. The slice belongs to the receiver. Nothing is
	// published meanwhile, so it should do no more than copy.
	Replay func(state S) []T

	// Buffer is how many values may wait for the slowest observer that is not lagging,
	// from 1 to 1048576; 0 is 1024. Fold, Replay and what waits are all that Share
	// keeps, whatever the number of observers. A batch that is larger waits alone.
	Buffer int
}

// Lagged tells an observer of [Share] that it has fallen behind the buffer. What it
// missed will not come one by one. A snapshot follows, which stands for the values; for
// errors, and without Fold and Replay, nothing does.
type Lagged struct {
	Missed int // values
	Errors int // notifications of failures
}

func (l *Lagged) Error() string {
	return fmt.Sprintf("the observer was too slow and missed %d values and %d errors; read faster or raise the buffer", l.Missed, l.Errors)
}

// Share lets any number of observers share one observation of the input. It starts with
// the first observer and has ended when the channel of the last one is closed. The next
// observer starts another, with a state of its own; two never overlap. What is
// observed has the values of the first observer's context, but not its end.
//
// An observer gets a snapshot, if it is not empty, and then what follows it: every value
// and error, in order, none twice. One that falls behind the buffer loses its place: when
// it reads again it gets a [Lagged], a new snapshot, and what follows that. It keeps
// nobody waiting. The input waits only while all observers are a buffer behind, so that
// the fastest of them, and a single one, miss nothing.
//
// The end of the input ends all observations, after what waits for them. A panic of Fold
// becomes an error and ends the input and so all of them. Share panics unless the
// options are valid.
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

// shared is what the observers of one Share have in common.
type shared[T, S any] struct {
	in      Stream[T]
	options ShareOptions[T, S]

	mu  sync.Mutex // Taken before that of a run.
	run *shareRun[T, S]
}

// join observes the run that is under way, or starts one. It waits for the end of one
// that the last observer has just left. It is nil when ctx ends.
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

// tryJoin is join without waiting: it gives what to wait for, where that is needed.
func (s *shared[T, S]) tryJoin(ctx context.Context) (o *shareObserver[T, S], gone <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.run != nil && !s.run.hasEnded() {
		return s.run.subscribe(), s.run.gone
	}
	run := &shareRun[T, S]{options: s.options, gone: make(chan struct{})}
	o = run.subscribe() // Before the first value comes.
	run.start(ctx, s.in)
	s.run = run
	return o, nil
}

// leave ends an observation. The last one to leave ends the input, and waits for that.
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
