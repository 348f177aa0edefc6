// Package lifecycle is the one owner of goroutines: no other package of Bellerophon
// has a go statement (a lint rule enforces it). Whoever starts a goroutine does so in
// a [Group], and whoever made the group waits for it, so that when a function of
// Bellerophon returns, every goroutine that it started has returned too.
package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
)

// Group runs functions in goroutines of their own and waits for them. The first one
// that fails stops the others. Make it with [New]; its methods may be called from any
// goroutine, also from the functions it runs.
type Group struct {
	ctx     context.Context
	cancel  context.CancelFunc
	running sync.WaitGroup

	mu  sync.Mutex
	err error
}

// New makes a group whose functions get a context that ends with ctx, with the first
// failure, or with Stop. Every New needs a Wait: it frees the context.
func New(ctx context.Context) *Group {
	ctx, cancel := context.WithCancel(ctx)
	return &Group{ctx: ctx, cancel: cancel}
}

// Context is the context that the group's functions get.
func (g *Group) Context() context.Context { return g.ctx }

// Go runs a function in a goroutine of its own. Its name says in errors what failed.
// A panic counts as a failure, with a [PanicError]. context.Canceled after the
// group's end is the way functions are expected to stop, and no failure.
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

// Stop ends the group's context. It does not wait.
func (g *Group) Stop() { g.cancel() }

// Wait returns once every function has returned, with the first failure. It does not
// stop them: call Stop before, or let ctx end.
func (g *Group) Wait() error {
	g.running.Wait()
	g.cancel()
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.err
}

// PanicError is a panic that was recovered and became an error.
type PanicError struct {
	Value any    // what panic was called with
	Stack []byte // of the goroutine that panicked, as debug.Stack prints it
}

// Error says what panic was called with. The stack is for logs: see Stack.
func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v", e.Value) }

// Unwrap is the error that panic was called with, if it was one.
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
