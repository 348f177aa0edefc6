package sourcestest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime/pprof"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/streams"
)

// Source is a source under test, with the part of the world that it observes: see [TestSource].
type Source[T any] struct {
	Stream streams.Stream[T]

	// Emit makes the things with the numbers from to to-1 happen in the world, in that order. It may
	// wait for the source, and returns when ctx ends. After a failure, it waits until the source observes
	// its world again, if the source cannot see what happened meanwhile. It is nil for a source that
	// emits by itself.
	Emit func(ctx context.Context, from, to int) error

	// Complete checks the values of one observation, which began before Emit. It returns an error unless
	// they hold the things with the numbers from to to-1, in the order of the source. Values of earlier
	// things may precede, if the source repeats them.
	Complete func(values []T, from, to int) error

	// Fail makes the source fail until repair is called, which happens when the first error is
	// reported. cause is an error that the failure of the source wraps, or nil if any error will do.
	// Fail is nil for a source that cannot fail.
	Fail func() (repair func(), cause error)

	// Blocks is set if Emit has to wait while an observer does not read. Otherwise Emit must never
	// wait for an observer.
	Blocks bool

	// Splits is set if observations share the values, so that each value goes to one of them.
	Splits bool

	// Shares is set if observations share goroutines, which are gone when the last observation has
	// ended.
	Shares bool

	// Close, if set, releases what may outlive an observation, such as idle connections.
	Close func()
}

// The numbers of things in the tests. many is more than an observation may hold ahead of its reader.
const (
	few  = 20
	many = 2000
)

// patience bounds each wait for the source.
const patience = 30 * time.Second

// TestSource tests a source against the contract of package sources:
//
//   - It emits what happens, completely and in order, to each of several observers.
//   - It ends with the context of its observation, also while its reader does not read. Then no
//     goroutine of the observation is left. Another observer is not disturbed, and a later one starts
//     from the beginning.
//   - A slow reader makes its world wait, or does not, as [Source].Blocks says. It misses nothing.
//   - A failure is one [streams.Error] with the name of the source, and does not end the stream: what
//     happens after it is emitted.
//
// open returns a new source in a new world for each test.
func TestSource[T any](t *testing.T, open func(t *testing.T) Source[T]) {
	t.Helper()
	for _, c := range checksOf[T]() {
		t.Run(c.name, func(t *testing.T) { c.run(t, open(t)) })
	}
}

// TestSourceInVirtualTime works like [TestSource], with each test in a bubble of testing/synctest. The
// source must wait only for channels and timers that open creates.
func TestSourceInVirtualTime[T any](t *testing.T, open func(t *testing.T) Source[T]) {
	t.Helper()
	for _, c := range checksOf[T]() {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { c.run(t, open(t)) })
		})
	}
}

type sourceCheck[T any] struct {
	name string
	run  func(*testing.T, Source[T])
}

func checksOf[T any]() []sourceCheck[T] {
	return []sourceCheck[T]{
		{"it emits everything in order, and again for a later observer", emitsInOrder[T]},
		{"it ends with its context while it is read", endsWhileRead[T]},
		{"it ends with its context while it is not read", endsWhileNotRead[T]},
		{"a slow reader misses nothing", slowReader[T]},
		{"several observers do not disturb each other", severalObservers[T]},
		{"a failure is reported once and ends nothing", failsOnce[T]},
	}
}

func emitsInOrder[T any](t *testing.T, s Source[T]) {
	for turn := range 2 {
		o := s.observe(t)
		s.during(t, turn*few, (turn+1)*few, func() { o.until(t, turn*few, (turn+1)*few) })
		o.noErrors(t)
		o.end(t)
	}
}

func endsWhileRead[T any](t *testing.T, s Source[T]) {
	o := s.observe(t)
	s.during(t, 0, few, func() { o.until(t, 0, few) })
	o.end(t)
}

func endsWhileNotRead[T any](t *testing.T, s Source[T]) {
	s.observe(t).end(t) // At once.
	o := s.observe(t)
	s.during(t, 0, many, func() {
		pause(t)
		o.end(t)
	})
}

func slowReader[T any](t *testing.T, s Source[T]) {
	o := s.observe(t)
	emitted := s.emit(t, 0, many)
	if s.Emit != nil && !s.Blocks {
		emitted.wait(t)
	}
	pause(t)
	if s.Blocks && emitted.isOver() {
		t.Errorf("%d things happened without a reader, although the source blocks", many)
	}
	o.until(t, 0, many)
	emitted.wait(t)
	o.noErrors(t)
	o.end(t)
}

func severalObservers[T any](t *testing.T, s Source[T]) {
	first, second := s.observe(t), s.observe(t)
	s.during(t, 0, few, func() {
		readBoth(t, first, second, func() error {
			if s.Splits {
				return s.Complete(append(append([]T{}, first.values...), second.values...), 0, few)
			}
			return errors.Join(s.Complete(first.values, 0, few), s.Complete(second.values, 0, few))
		})
	})
	if first.close(t); !s.Shares {
		first.isGone(t)
	}
	if second.values = nil; s.Emit == nil {
		second.until(t, 0, few)
	} else {
		s.during(t, few, 2*few, func() { second.until(t, few, 2*few) })
	}
	second.noErrors(t)
	second.end(t)
	first.isGone(t)
}

func failsOnce[T any](t *testing.T, s Source[T]) {
	if s.Fail == nil { // As for ticks and Go channels: there is nothing that could be reported.
		t.Skip("the source cannot fail")
	}
	o := s.observe(t)
	s.during(t, 0, few, func() { o.until(t, 0, few) })
	repair, cause := s.Fail()
	o.read(t, "the error of a failure", func() error {
		if len(o.errs) == 0 {
			return errors.New("no error was reported")
		}
		return nil
	})
	repair()
	s.during(t, few, 2*few, func() { o.until(t, few, 2*few) })
	if len(o.errs) != 1 {
		t.Errorf("one failure was reported as %q", o.errs)
	}
	var named *streams.Error
	if err := o.errs[0]; !errors.As(err, &named) || named.Source == "" {
		t.Errorf("the error %q is not a streams.Error with the name of the source", err)
	} else if cause != nil && !errors.Is(err, cause) {
		t.Errorf("the error %q does not wrap %q", err, cause)
	}
	o.end(t)
}

// pause gives a source the time to do what it does without a reader.
func pause(t *testing.T) {
	select {
	case <-time.After(100 * time.Millisecond):
	case <-t.Context().Done():
	}
}

// emission is a running call of Emit.
type emission struct{ group *lifecycle.Group }

func (s Source[T]) emit(t *testing.T, from, to int) emission {
	t.Helper()
	group := lifecycle.New(t.Context())
	group.Go("emit", func(ctx context.Context) error {
		if s.Emit == nil {
			return nil
		}
		if err := s.Emit(ctx, from, to); err != nil && ctx.Err() == nil {
			return err
		}
		return nil
	})
	return emission{group}
}

func (e emission) isOver() bool {
	select {
	case <-e.group.Ended():
		return true
	default:
		return false
	}
}

func (e emission) wait(t *testing.T) {
	t.Helper()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-e.group.Ended():
	case <-timer.C:
		t.Errorf("Emit has not returned within %v", patience)
		e.group.Stop()
	}
	if err := e.group.Wait(); err != nil {
		t.Errorf("Emit failed: %v", err)
	}
}

// during calls do while Emit runs, and then ends Emit.
func (s Source[T]) during(t *testing.T, from, to int, do func()) {
	t.Helper()
	emitted := s.emit(t, from, to)
	do()
	emitted.group.Stop()
	emitted.wait(t)
}

// observation is a running observation of a source.
type observation[T any] struct {
	source Source[T]
	next   func(context.Context) (values []T, err error, open bool)
	cancel context.CancelFunc
	label  string
	values []T
	errs   []error
	ended  bool
}

// labelKey is the profiler label of the goroutines of an observation.
const labelKey = "source-under-test"

func (s Source[T]) observe(t *testing.T) *observation[T] {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	o := &observation[T]{source: s, cancel: cancel}
	o.label = fmt.Sprintf("%p", o)
	// Goroutines inherit the label from the goroutine that starts them.
	pprof.Do(ctx, pprof.Labels(labelKey, o.label), func(ctx context.Context) {
		items := s.Stream.Observe(ctx)
		o.next = func(ctx context.Context) (values []T, err error, open bool) {
			select {
			case item, open := <-items:
				if !open {
					return nil, nil, false
				}
				values, err = streams.Values[T](item)
				return values, err, true
			case <-ctx.Done():
				return nil, nil, true
			}
		}
	})
	pause(t) // Until the source observes its world.
	return o
}

// read reads until is returns nil.
func (o *observation[T]) read(t *testing.T, what string, is func() error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		missing := is()
		if missing == nil {
			return
		}
		if o.ended || ctx.Err() != nil {
			t.Fatalf("%s: %v; the stream has ended: %t; errors: %q", what, missing, o.ended, o.errs)
		}
		o.step(ctx)
	}
}

// step reads one item.
func (o *observation[T]) step(ctx context.Context) {
	values, err, open := o.next(ctx)
	o.values = append(o.values, values...)
	if err != nil {
		o.errs = append(o.errs, err)
	}
	o.ended = !open
}

func (o *observation[T]) until(t *testing.T, from, to int) {
	t.Helper()
	o.read(t, fmt.Sprintf("the values of %d to %d", from, to-1), func() error { return o.source.Complete(o.values, from, to) })
}

// readBoth reads two observations alternately until is returns nil, because a world that blocks may wait for
// each of them.
func readBoth[T any](t *testing.T, first, second *observation[T], is func() error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		missing := is()
		if missing == nil {
			return
		}
		if ctx.Err() != nil {
			t.Fatalf("two observations: %v", missing)
		}
		for _, one := range []*observation[T]{first, second} {
			short, stop := context.WithTimeout(ctx, time.Millisecond)
			one.step(short)
			stop()
		}
	}
}

func (o *observation[T]) noErrors(t *testing.T) {
	t.Helper()
	if len(o.errs) > 0 {
		t.Errorf("errors were reported without a failure: %q", o.errs)
	}
}

// end ends the observation, and looks for goroutines that are left.
func (o *observation[T]) end(t *testing.T) {
	t.Helper()
	o.close(t)
	o.isGone(t)
}

// close cancels the observation and waits for its end.
func (o *observation[T]) close(t *testing.T) {
	t.Helper()
	o.cancel()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for !o.ended {
		if ctx.Err() != nil {
			t.Fatalf("the stream has not ended %v after its context", patience)
		}
		o.step(ctx)
	}
}

// isGone reports goroutines of the observation.
func (o *observation[T]) isGone(t *testing.T) {
	t.Helper()
	if o.source.Close != nil {
		o.source.Close()
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var left string
	for ctx.Err() == nil { // The goroutine that closed the channel is about to return.
		if left = goroutinesOf(o.label); left == "" {
			return
		}
		pause(t)
	}
	t.Errorf("goroutines are left after the end of the stream:\n%s", left)
}

// goroutinesOf returns the stacks of the goroutines that have a label.
func goroutinesOf(label string) string {
	var profile bytes.Buffer
	if err := pprof.Lookup("goroutine").WriteTo(&profile, 1); err != nil {
		return err.Error()
	}
	var found bytes.Buffer
	for _, stack := range bytes.Split(profile.Bytes(), []byte("\n\n")) {
		if bytes.Contains(stack, []byte(labelKey)) && bytes.Contains(stack, []byte(label)) {
			found.Write(append(stack, '\n'))
		}
	}
	return found.String()
}
