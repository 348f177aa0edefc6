package shards

import (
	"context"
	"errors"
	"sync"
	"time"
)

// ErrLost is the error of [Allowed] when the member could not renew its Lease in time. The contexts of work
// end with it as the cause. Another member may then work on the same keys.
var ErrLost = errors.New("the Lease of this replica was not renewed in time, so another replica may own the key")

// term is the time from a member's first renewal to the end of its Lease. A member that could not renew in
// time begins anew, without slots.
type term struct {
	ctx    context.Context // ends with ErrLost
	cancel context.CancelCauseFunc

	spare time.Duration // after the deadline, until another member may own the slots

	mu       sync.Mutex
	deadline time.Time
	timer    *time.Timer // ends the term at the deadline, also while a request of the member hangs

	busy [Slots]int // units of work in flight; guarded by the lock of the member
}

// newTerm begins a term. over is called when it has ended.
func newTerm(deadline time.Time, spare time.Duration, over func()) *term {
	made := &term{deadline: deadline, spare: spare}
	made.ctx, made.cancel = context.WithCancelCause(context.Background())
	made.mu.Lock() // The timer may fire at once.
	defer made.mu.Unlock()
	made.timer = time.AfterFunc(time.Until(deadline), func() {
		if !made.allows(time.Now()) {
			over()
		}
	})
	return made
}

// allows reports whether work may go on at a time. It ends a term whose time is over.
func (t *term) allows(now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !now.Before(t.deadline) {
		t.cancel(ErrLost)
	}
	return t.ctx.Err() == nil
}

// extend moves the deadline, and returns false if the term has ended before.
func (t *term) extend(deadline time.Time) bool {
	if !t.allows(time.Now()) {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.deadline = deadline
	t.timer.Reset(time.Until(deadline))
	return true
}

// until returns when another member may own the slots of the term.
func (t *term) until() time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.deadline.Add(t.spare)
}

// end ends the term.
func (t *term) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.timer.Stop()
	t.cancel(ErrLost)
}

type workKey struct{}

// work is what the context of a unit of work belongs to.
type work struct {
	member *Member
	term   *term
	slot   int
}

// workOf returns the work that a context belongs to, or nil.
func workOf(ctx context.Context) *work {
	found, _ := ctx.Value(workKey{}).(*work)
	return found
}

// Begin begins a unit of work in a slot. It returns false if the member does not own the slot now. Otherwise
// the caller calls end when the work and its requests have ended. The context of the work ends with [ErrLost]
// if the member fails.
func (m *Member) Begin(ctx context.Context, slot int) (within context.Context, end func(), owned bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	of := m.term
	if of == nil || m.states[slot] != owning || !of.allows(time.Now()) {
		return ctx, func() {}, false
	}
	of.busy[slot]++
	within, cancel := context.WithCancelCause(context.WithValue(ctx, workKey{}, &work{m, of, slot}))
	stop := context.AfterFunc(of.ctx, func() { cancel(ErrLost) })
	return within, func() {
		stop()
		cancel(nil)
		m.mu.Lock()
		defer m.mu.Unlock()
		if of.busy[slot]--; of.busy[slot] == 0 && m.term == of && m.states[slot] == draining {
			m.poke()
		}
	}, true
}

// Allowed returns [ErrLost] if the work that ctx belongs to must not write any more. It returns nil for a
// context that belongs to no work. It needs no request.
func Allowed(ctx context.Context) error {
	if of := workOf(ctx); of != nil && !of.term.allows(time.Now()) {
		return ErrLost
	}
	return nil
}

// Limits returns how long a write of the work that ctx belongs to may take: left is the time until another member may own
// the key. Its part spare, the time between RenewDeadline and LeaseDuration, is not for the API server, but for the way
// there. Both are 0 for a context that belongs to no work.
func Limits(ctx context.Context) (left, spare time.Duration) {
	of := workOf(ctx)
	if of == nil {
		return 0, 0
	}
	return max(time.Until(of.term.until()), of.term.spare), of.term.spare
}

// Unanswered records that a write of the work that ctx belongs to ended without an answer, and may take effect until a time.
// The slot of the work is not handed over before that. It does nothing for a context that belongs to no work.
func Unanswered(ctx context.Context, until time.Time) {
	of := workOf(ctx)
	if of == nil {
		return
	}
	of.member.mu.Lock()
	defer of.member.mu.Unlock()
	of.member.hold(of.slot, until)
}
