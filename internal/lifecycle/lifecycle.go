// Package lifecycle starts goroutines and waits for them. No other package of Bellerophon has a go
// statement; a test of internal/ranks enforces this. Each goroutine runs in a [Group], and the function that
// created the group waits for it. So when a function of Bellerophon returns, every goroutine that
// it started has returned too.
package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"
)

// Group runs functions in goroutines of their own and waits for them. The first function that fails
// stops the others. Create it with [New]. Its methods may be called from any goroutine, but Wait
// must not be called from a function of the group.
type Group struct {
	ctx     context.Context
	cancel  context.CancelFunc
	running sync.WaitGroup

	mu  sync.Mutex
	err error
}

// New creates a group. The context of its functions ends when ctx ends, when the first function
// fails, or on Stop. Each group needs a Wait, which releases the context.
func New(ctx context.Context) *Group {
	ctx, cancel := context.WithCancel(ctx)
	return &Group{ctx: ctx, cancel: cancel}
}

// Context returns the context that the group's functions get.
func (g *Group) Context() context.Context { return g.ctx }

// Go runs a function in a goroutine of its own. Errors begin with its name. A panic is a failure
// with a [PanicError]. A function that returns context.Canceled after the group's context has ended
// has stopped as expected, and has not failed.
func (g *Group) Go(name string, run func(ctx context.Context) error) {
	g.running.Go(func() {
		err := Guard(func() error { return run(g.ctx) })
		if err == nil || (errors.Is(err, context.Canceled) && g.ctx.Err() != nil) {
			return
		}
		g.mu.Lock()
		if g.err == nil {
			g.err = fmt.Errorf("%s: %w", name, err)
		}
		g.mu.Unlock()
		g.cancel()
	})
}

// Stop cancels the group's context. It does not wait.
func (g *Group) Stop() { g.cancel() }

// Wait waits until every function has returned, and returns the first failure. It does not stop the
// functions: call Stop first, or let ctx end.
func (g *Group) Wait() error {
	g.running.Wait()
	g.cancel()
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.err
}

// Ended returns a channel that is closed when every function has returned. The functions must have been
// started before, and Wait must be called as well.
func (g *Group) Ended() <-chan struct{} {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		g.running.Wait()
	}()
	return ended
}

// PanicError is the error of a recovered panic.
type PanicError struct {
	Value any    // the argument of panic
	Stack []byte // the stack of the goroutine that panicked, as debug.Stack prints it
}

// Error returns "panic: " and Value. It leaves out the stack, which is for logs.
func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v", e.Value) }

// Unwrap returns Value if it is an error, and nil otherwise.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// Guard calls a function and returns its error, or a [PanicError] if it panicked.
func Guard(run func() error) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = &PanicError{Value: value, Stack: debug.Stack()}
		}
	}()
	return run()
}

// Pause waits for a duration. It returns nil afterwards, or the error of ctx if that ends before.
func Pause(ctx context.Context, duration time.Duration) error {
	timer := time.NewTimer(duration)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
