package streams

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/reactivex/rxgo/v2"
)

// capacity is the number of batches that an observation's channel holds: enough to let both
// sides run, and few enough that a slow reader blocks the sender at once.
const capacity = 8

// Stream is a stream of T. It is cold, unless it is the Stream of a [Subject]. The zero Stream is empty: it ends at once.
type Stream[T any] struct {
	run func(ctx context.Context, out Sink[T])

	// subscribe, if set, takes the place of run. It subscribes to a hot source, and returns the function that sends
	// what comes from then on.
	subscribe func() (run func(ctx context.Context, out Sink[T]))
}

// Create creates a stream from a function that sends to a sink. The function is called once per
// observation, in a goroutine of the observation, and must return when ctx ends. The stream ends
// when the function returns.
func Create[T any](run func(ctx context.Context, out Sink[T])) Stream[T] {
	return Stream[T]{run: run}
}

// Of creates a stream of the given values, in one batch.
func Of[T any](values ...T) Stream[T] {
	return Create(func(_ context.Context, out Sink[T]) {
		if len(values) > 0 {
			out.Send(slices.Clone(values)) // The receiver owns its batch, and there may be several receivers.
		}
	})
}

// From creates a stream from a plain observable. Its items are T or []T; an item of another type
// becomes an error. Items that are available at the same time become one batch.
func From[T any](observable rxgo.Observable) Stream[T] {
	return Create(func(ctx context.Context, out Sink[T]) {
		// From does not wait for the observable to end: foreign code may ignore ctx.
		in := observable.Observe(rxgo.WithContext(ctx))
		for {
			select {
			case <-ctx.Done():
				return
			case item, open := <-in:
				if !open || !forwardForeign(item, in, out) {
					return
				}
			}
		}
	})
}

// forwardForeign sends an item, together with the items that are available at once. It returns
// false at the end of the input or of the observation.
func forwardForeign[T any](item rxgo.Item, in <-chan rxgo.Item, out Sink[T]) bool {
	var batch []T
	for {
		switch value := item.V.(type) {
		case []T: // Before T, because a slice is a T too if T is any.
			batch = append(batch, value...)
		case T:
			batch = append(batch, value)
		default:
			err := item.E
			if err == nil {
				err = fmt.Errorf("streams.From: an item is a %T, not a %v", item.V, reflect.TypeFor[T]())
			}
			if len(batch) > 0 && !out.Send(batch) {
				return false
			}
			return out.Error(err)
		}
		var open bool
		select {
		case item, open = <-in:
			if open && len(batch) < maxBatch {
				continue
			}
		default:
			return out.Send(batch)
		}
		// The input has ended, or the batch is full and item is the next one to send.
		if !out.Send(batch) || !open {
			return false
		}
		batch = nil
	}
}

// Observe starts an observation and returns its channel. [Values] unpacks its items. The caller
// must read the channel until it is closed, even after ctx has ended. An observation of a [Subject] gets
// everything that is sent after Observe has returned.
func (s Stream[T]) Observe(ctx context.Context) <-chan rxgo.Item {
	return s.subscribed().batches().Observe(rxgo.WithContext(ctx), rxgo.WithBufferedChannel(capacity))
}

// ErrExited is the error that ends an observation when one of its functions calls
// [runtime.Goexit], as FailNow of package testing does. Nothing can stop a goroutine from exiting.
var ErrExited = errors.New("a function of the stream called runtime.Goexit")

// batches returns the stream as an observable of batches.
func (s Stream[T]) batches() rxgo.Observable {
	return rxgo.Defer([]rxgo.Producer{func(ctx context.Context, next chan<- rxgo.Item) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		out, returned := Sink[T]{done: ctx.Done(), out: next}, false
		defer func() {
			if !returned {
				out.Error(ErrExited) // Otherwise the stream would look as if it had ended by itself.
			}
		}()
		s.produce(ctx, out)
		returned = true
	}})
}

// subscribed returns the stream for one observation, which has begun if it is hot.
func (s Stream[T]) subscribed() Stream[T] {
	if s.subscribe == nil {
		return s
	}
	return Stream[T]{run: s.subscribe()}
}

// produce runs the stream into a sink and turns a panic into an error.
func (s Stream[T]) produce(ctx context.Context, out Sink[T]) {
	if s = s.subscribed(); s.run == nil {
		return
	}
	if err := lifecycle.Guard(func() error { s.run(ctx, out); return nil }); err != nil {
		out.Error(err)
	}
}

// Observable returns the stream as a plain observable of single values, for RxGo operators. The
// observable is cold, as the stream is. RxGo's own Map and Filter end at the first error, unless
// they get rxgo.WithErrorStrategy(rxgo.ContinueOnError).
func (s Stream[T]) Observable() rxgo.Observable {
	return rxgo.Defer([]rxgo.Producer{func(ctx context.Context, next chan<- rxgo.Item) {
		ctx, cancel := context.WithCancel(ctx)
		in := s.Observe(ctx)
		defer drain(in)
		defer cancel()
		for item := range in {
			values, err := Values[T](item)
			for _, value := range values {
				if !rxgo.Of(value).SendContext(ctx, next) {
					return
				}
			}
			if err != nil && !rxgo.Error(err).SendContext(ctx, next) {
				return
			}
		}
	}})
}

// Values unpacks an item of an observation into a batch, which may be empty, and an error that
// follows the batch, or nil. The receiver of an observation must call it once for each item, in
// order, from one goroutine at a time. It runs the functions of [MapOnReceive].
func Values[T any](item rxgo.Item) ([]T, error) {
	if item.V == nil {
		return nil, item.E
	}
	return taken[T](item.V)
}

// joined joins the errors that are not nil. It returns a single error as it is.
func joined(errs ...error) error {
	errs = slices.DeleteFunc(errs, func(err error) bool { return err == nil })
	if len(errs) == 1 {
		return errs[0]
	}
	return errors.Join(errs...)
}

// drain waits until the upstream of a cancelled observation has returned.
func drain(in <-chan rxgo.Item) {
	for range in { // Until it is closed.
	}
}
