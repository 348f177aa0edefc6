package streams

import (
	"context"

	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/reactivex/rxgo/v2"
)

// Lift creates a stage from a plain function that reads an input channel and sends to a sink.
// [Batch] is built with it, and so is each stage of package operators that needs a goroutine.
//
// The function is called once per observation, so the state in its variables belongs to that
// observation. It reads batches and errors (see [Values]). It must return when the input is closed,
// when ctx ends or when sending fails, and must forward the errors that it does not handle. When it
// returns, Lift cancels its input and waits for it.
func Lift[T, U any](in Stream[T], run func(ctx context.Context, in <-chan rxgo.Item, out Sink[U])) Stream[U] {
	return Create(func(ctx context.Context, out Sink[U]) {
		ctx, cancel := context.WithCancel(ctx)
		items := in.Observe(ctx)
		defer drain(items)
		defer cancel()
		run(ctx, items, out)
	})
}

// MapOnReceive creates a stateless stage from a function over batches, and forwards errors. The
// function may reuse its batch. An error that the function returns follows the batch that it
// returns. A panic becomes an error and ends the stream.
//
// The receiver of the stream calls the function, one batch at a time, when it unpacks an item (see
// [Values]). The stage therefore costs neither a goroutine nor a hop.
//
//	[a b] [c]  =>  [f(a) f(b)] [f(c)]
func MapOnReceive[T, U any](in Stream[T], apply func(batch []T) ([]U, error)) Stream[U] {
	return Create(func(ctx context.Context, out Sink[U]) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		mapping := &mapping[T, U]{apply: apply, cancel: cancel}
		in.produce(ctx, Sink[T]{done: ctx.Done(), out: out.out, then: func(value any) any {
			return out.item(mapped[T, U]{value, mapping}).V
		}})
	})
}

// mapping is the state of one observation of MapOnReceive.
type mapping[T, U any] struct {
	apply  func(batch []T) ([]U, error)
	cancel func() // ends the input
	broken bool   // apply has panicked
}

// mapped is a batch, or a later one, with the mapping to apply to it.
type mapped[T, U any] struct {
	value any
	by    *mapping[T, U]
}

func (m mapped[T, U]) take() (batch []U, err error) {
	values, before := taken[T](m.value)
	if m.by.broken || len(values) == 0 {
		return nil, before
	}
	panicked := lifecycle.Guard(func() error {
		batch, err = m.by.apply(values)
		return nil
	})
	if panicked != nil {
		m.by.broken = true
		m.by.cancel()
	}
	return batch, joined(before, err, panicked)
}
