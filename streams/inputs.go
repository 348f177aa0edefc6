package streams

import (
	"context"
	"slices"
	"sync"

	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
)

// Inputs is a [Merge] whose inputs come and go. Make it with [NewInputs]. Its methods may
// be called from any goroutine, whether its stream is observed or not.
type Inputs[T any] struct {
	mu           sync.Mutex
	streams      []*Stream[T] // in the order in which they were added
	observations []*inputsObservation[T]
}

// inputsObservation is one observation of the inputs.
type inputsObservation[T any] struct {
	ctx     context.Context
	out     Sink[T]
	running map[*Stream[T]]*lifecycle.Group
	ending  bool // no further input starts
}

// NewInputs makes a merge without inputs.
func NewInputs[T any]() *Inputs[T] { return &Inputs[T]{} }

// Add adds an input, which starts at once where the stream is observed. Remove takes it
// away again: it cancels the input, and returns when the input has returned, after which
// it sends nothing. What it has sent before may still be on its way. An input must not
// remove itself: it would wait for its own return. It may be called again.
func (i *Inputs[T]) Add(input Stream[T]) (remove func()) {
	added := &input
	i.mu.Lock()
	defer i.mu.Unlock()
	i.streams = append(i.streams, added)
	for _, observed := range i.observations {
		observed.start(added)
	}
	return func() { i.remove(added) }
}

func (i *Inputs[T]) remove(input *Stream[T]) {
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
		delete(observed.running, input) // Not before: the end of an observation waits for it as well.
	}
}

// stop ends inputs and waits for them.
func stop(groups []*lifecycle.Group) {
	for _, group := range groups {
		group.Stop()
	}
	for _, group := range groups {
		_ = group.Wait() // produce turns panics into errors, so nothing is left to fail.
	}
}

// Stream is what the inputs send. The order within each input is kept; batches of
// different inputs interleave. An error of one input ends neither it nor the others. The
// stream ends with its context only, as there may be further inputs. Each observation
// observes each input.
//
//	[a1] (add b) [a2]  and  [b1] (remove b) [b2]  =>  [a1] [b1] [a2]
func (i *Inputs[T]) Stream() Stream[T] {
	return Create(func(ctx context.Context, out Sink[T]) {
		observed := &inputsObservation[T]{ctx: ctx, out: out, running: map[*Stream[T]]*lifecycle.Group{}}
		i.begin(observed)
		<-ctx.Done()
		i.end(observed)
	})
}

func (i *Inputs[T]) begin(observed *inputsObservation[T]) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.observations = append(i.observations, observed)
	for _, input := range i.streams {
		observed.start(input)
	}
}

// end waits for the inputs of an observation. Until then remove finds them and waits too.
func (i *Inputs[T]) end(observed *inputsObservation[T]) {
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

// start runs an input, which sends to the sink of the observation itself, as in Merge, but
// only until it is cancelled. The lock is held.
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
