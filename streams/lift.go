package streams

import (
	"context"

	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/reactivex/rxgo/v2"
)

// Lift makes an operator of a plain function from an input channel to a sink. All
// operators of Bellerophon have this one shape.
//
// The function is called once per observation, so that state in its variables belongs
// to that observation. It reads batches and errors (see [Values]) and returns when the
// input is closed, when ctx ends or when sending fails. Errors that it does not handle
// it forwards. When it returns, its input is cancelled and waited for.
func Lift[T, U any](in Stream[T], run func(ctx context.Context, in <-chan rxgo.Item, out Sink[U])) Stream[U] {
	return Create(func(ctx context.Context, out Sink[U]) {
		ctx, cancel := context.WithCancel(ctx)
		items := in.Observe(ctx)
		defer drain(items)
		defer cancel()
		run(ctx, items, out)
	})
}

// MapBatches makes a stateless operator of a function over batches; it forwards errors.
// The function may reuse the batch it gets. An error that it returns goes on behind the
// batch; a panic becomes an error and ends the stream. The function is called by whoever
// receives, one batch at a time, when it takes an item apart (see [Values]): that costs
// neither a goroutine nor a hop.
//
//	[a b] [c]  =>  [f(a) f(b)] [f(c)]
func MapBatches[T, U any](in Stream[T], apply func(batch []T) ([]U, error)) Stream[U] {
	return Create(func(ctx context.Context, out Sink[U]) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		mapping := &mapping[T, U]{apply: apply, cancel: cancel}
		in.produce(ctx, Sink[T]{done: ctx.Done(), out: out.out, then: func(value any) any {
			return out.item(mapped[T, U]{value, mapping}).V
		}})
	})
}

// mapping is one observation of MapBatches.
type mapping[T, U any] struct {
	apply  func(batch []T) ([]U, error)
	cancel func() // ends the input
	broken bool   // apply has panicked
}

// mapped is a batch, or one that is made later, that a mapping is applied to.
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
