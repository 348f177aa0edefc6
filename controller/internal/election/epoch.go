package election

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// ErrNotLeading is wrapped in the error of work that only the leader may do.
var ErrNotLeading = errors.New("this replica does not lead")

// Epoch is a time in which this replica leads. Its methods may be called from any goroutine.
type Epoch struct {
	began  time.Time     // with the reading of the monotonic clock
	starts atomic.Int64  // nanoseconds after began, until which a write may start
	spare  time.Duration // after that, until which a write ends
	doubt  atomic.Int64  // nanoseconds after began, until which an unanswered write may take effect
	ctx    context.Context
	cancel context.CancelCauseFunc

	mu          sync.Mutex
	over        bool
	inside      int // the work that has entered, and has not left
	empty       chan struct{}
	connections map[*connection]struct{}
}

// newEpoch starts an epoch with a renewal that was sent at a time.
func newEpoch(ctx context.Context, sent time.Time, of Settings) *Epoch {
	e := &Epoch{began: sent, spare: of.LeaseDuration - of.RenewDeadline, empty: make(chan struct{}), connections: map[*connection]struct{}{}}
	e.ctx, e.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	e.renewed(sent, of)
	return e
}

// renewed records that a renewal which was sent at a time has succeeded.
func (e *Epoch) renewed(sent time.Time, of Settings) {
	e.starts.Store(int64(sent.Sub(e.began) + of.RenewDeadline))
}

// Left returns how long a write may still start.
func (e *Epoch) Left() time.Duration { return time.Duration(e.starts.Load()) - time.Since(e.began) }

// Check returns an error that wraps [ErrNotLeading] if the epoch is over.
func (e *Epoch) Check() error {
	if e.ctx.Err() != nil {
		return context.Cause(e.ctx)
	}
	if left := e.Left(); left <= 0 {
		return fmt.Errorf("%w: the Lease was due %v ago", ErrNotLeading, -left)
	}
	return nil
}

// Enter records that work of the epoch begins, and returns false if it must not. The caller calls Leave at
// its end.
func (e *Epoch) Enter() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.over || e.Left() <= 0 {
		return false
	}
	e.inside++
	return true
}

// Leave records that work of the epoch has ended.
func (e *Epoch) Leave() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.inside--; e.over && e.inside == 0 {
		close(e.empty)
	}
}

// end ends the epoch: work in flight loses its context, and connections are reset. It returns how much work
// is in flight. The channel empty is closed when all work has left.
func (e *Epoch) end(cause error) (inside int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.over {
		return e.inside
	}
	e.over = true
	e.cancel(cause) // First, so that a request that loses its connection is not sent again by another one.
	for connection := range e.connections {
		connection.reset()
	}
	e.connections = nil
	if e.inside == 0 {
		close(e.empty)
	}
	return e.inside
}

// Inside returns how much work of the epoch is in flight.
func (e *Epoch) Inside() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.inside
}

// track makes end close a connection. It returns false if the epoch is over.
func (e *Epoch) track(added *connection) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.over {
		e.connections[added] = struct{}{}
	}
	return !e.over
}

func (e *Epoch) forget(closed *connection) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.connections, closed)
}

type epochKey struct{}

// Bind returns a context that belongs to the epoch, and ends with it. The caller calls the returned function
// when the work has ended.
func (e *Epoch) Bind(ctx context.Context) (context.Context, context.CancelFunc) {
	bound, cancel := context.WithCancelCause(context.WithValue(ctx, epochKey{}, e))
	stop := context.AfterFunc(e.ctx, func() { cancel(context.Cause(e.ctx)) })
	return bound, func() {
		stop()
		cancel(nil)
	}
}

// Of returns the epoch that a context belongs to, or nil.
func Of(ctx context.Context) *Epoch {
	found, _ := ctx.Value(epochKey{}).(*Epoch)
	return found
}

// unanswered records that a write of the epoch ended without an answer, and may take effect until a time.
func (e *Epoch) unanswered(at time.Time) {
	until := int64(at.Sub(e.began))
	for known := e.doubt.Load(); known < until; known = e.doubt.Load() {
		if e.doubt.CompareAndSwap(known, until) {
			return
		}
	}
}

// inDoubt returns how long a write of the epoch may still take effect.
func (e *Epoch) inDoubt() time.Duration { return time.Duration(e.doubt.Load()) - time.Since(e.began) }
