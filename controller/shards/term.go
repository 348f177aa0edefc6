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

// work is a unit of work, to which a context belongs.
type work struct {
	member *Member
	term   *term
	slot   int
	ended  bool // guarded by the lock of the member
}

// leave records that the work, or a write of it, has ended. The caller holds the lock of the member.
func (w *work) leave() {
	m := w.member
	if w.term.busy[w.slot]--; w.term.busy[w.slot] == 0 && m.term == w.term && m.states[w.slot] == draining {
		m.poke()
	}
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
	made := &work{member: m, term: of, slot: slot}
	within, cancel := context.WithCancelCause(context.WithValue(ctx, workKey{}, made))
	stop := context.AfterFunc(of.ctx, func() { cancel(ErrLost) })
	return within, func() {
		stop()
		cancel(nil)
		m.mu.Lock()
		defer m.mu.Unlock()
		made.ended = true
		made.leave()
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

// Write is a write of a unit of work.
type Write struct {
	Left  time.Duration // until another member may own the key
	Spare time.Duration // the part of Left between RenewDeadline and LeaseDuration; it is for the way to the API server

	of *work
}

// errOver is the error of a write whose work has ended, when the member does not own the slot any more.
var errOver = errors.New("the work has ended, and another replica may own the key")

// BeginWrite begins a write of the work that ctx belongs to, and returns nil for a context that belongs to no work. Without
// an error, the caller calls End with the outcome: the slot is not handed over before that. The error is [ErrLost] if the
// work must not write any more. Another error says that the work has ended and its slot was handed over.
func BeginWrite(ctx context.Context) (*Write, error) {
	of := workOf(ctx)
	if of == nil {
		return nil, nil
	}
	m := of.member
	m.mu.Lock()
	defer m.mu.Unlock()
	if !of.term.allows(time.Now()) {
		return nil, ErrLost
	}
	if of.ended && (m.term != of.term || m.states[of.slot] != owning) {
		return nil, errOver
	}
	of.term.busy[of.slot]++
	return &Write{Left: time.Until(of.term.until()), Spare: of.term.spare, of: of}, nil
}

// End ends the write. It may take effect until doubt, which is zero if its outcome is known. The slot is not handed over
// before that.
func (w *Write) End(doubt time.Time) {
	m := w.of.member
	m.mu.Lock()
	defer m.mu.Unlock()
	m.hold(w.of.slot, doubt)
	w.of.leave()
}
