package streams

import (
	"context"
	"slices"
	"sync"

	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
)

// MergeHub is a [Merge] whose inputs can be added and removed at any time. Create it with
// [NewMergeHub]. Its methods may be called from any goroutine, whether its stream is observed or not.
type MergeHub[T any] struct {
	mu           sync.Mutex
	streams      []*Stream[T] // in the order of Add
	observations []*inputsObservation[T]
}

// inputsObservation is one observation of the inputs.
type inputsObservation[T any] struct {
	ctx     context.Context
	out     Sink[T]
	running map[*Stream[T]]*lifecycle.Group
	ending  bool // no more inputs start
}

// NewMergeHub creates a merge without inputs.
func NewMergeHub[T any]() *MergeHub[T] { return &MergeHub[T]{} }

// Add adds an input. If the stream is observed, the input starts at once.
//
// The returned function removes the input: it cancels the input and waits for it to return. After
// that the input sends nothing more; items that it sent before may still be in flight. An input
// must not call the function itself, because it would wait for its own return. The function may be
// called more than once.
func (i *MergeHub[T]) Add(input Stream[T]) (remove func()) {
	added := &input
	i.mu.Lock()
	defer i.mu.Unlock()
	i.streams = append(i.streams, added)
	for _, observed := range i.observations {
		observed.start(added)
	}
	return func() { i.remove(added) }
}

func (i *MergeHub[T]) remove(input *Stream[T]) {
	var groups []*lifecycle.Group
	i.mu.Lock()
	i.streams = slices.DeleteFunc(i.streams, func(known *Stream[T]) bool { return known == input })
	for _, observed := range i.observations {
		if running := observed.running[input]; running != nil {
			groups = append(groups, running)
		}
	}
	i.mu.Unlock()
	stop(groups)
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, observed := range i.observations {
		delete(observed.running, input) // Not earlier, because the end of an observation waits for it too.
	}
}

// stop cancels inputs and waits for them.
func stop(groups []*lifecycle.Group) {
	for _, group := range groups {
		group.Stop()
	}
	for _, group := range groups {
		_ = group.Wait() // Always nil: produce turns panics into errors.
	}
}

// Stream returns the merged stream. The order within each input is kept; batches of different
// inputs interleave. An error of one input ends neither that input nor the others. The stream ends
// only when its context ends, because more inputs may be added. Each observation observes each
// input.
//
//	[a1] (add b) [a2]  and  [b1] (remove b) [b2]  =>  [a1] [b1] [a2]
func (i *MergeHub[T]) Stream() Stream[T] {
	return Create(func(ctx context.Context, out Sink[T]) {
		observed := &inputsObservation[T]{ctx: ctx, out: out, running: map[*Stream[T]]*lifecycle.Group{}}
		i.begin(observed)
		<-ctx.Done()
		i.end(observed)
	})
}

func (i *MergeHub[T]) begin(observed *inputsObservation[T]) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.observations = append(i.observations, observed)
	for _, input := range i.streams {
		observed.start(input)
	}
}

// end cancels the inputs of an observation and waits for them. Until it returns, remove still finds
// them, and waits too.
func (i *MergeHub[T]) end(observed *inputsObservation[T]) {
	var groups []*lifecycle.Group
	i.mu.Lock()
	observed.ending = true
	for _, running := range observed.running {
		groups = append(groups, running)
	}
	i.mu.Unlock()
	stop(groups)
	i.mu.Lock()
	defer i.mu.Unlock()
	i.observations = slices.DeleteFunc(i.observations, func(known *inputsObservation[T]) bool { return known == observed })
}

// start runs an input. The input sends directly to the sink of the observation, as in Merge, but
// only until it is cancelled. The caller holds the lock.
func (o *inputsObservation[T]) start(input *Stream[T]) {
	if o.ending {
		return
	}
	group := lifecycle.New(o.ctx)
	o.running[input] = group
	group.Go("input", func(ctx context.Context) error {
		out := o.out
		out.done = ctx.Done()
		input.produce(ctx, out)
		return nil
	})
}
