package operators_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/streams"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bubble runs a test in virtual time. It fails if a goroutine is left at its end.
func bubble(t *testing.T, name string, test func(t *testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		t.Helper()
		synctest.Test(t, test)
	})
}

// parallel runs a function in a goroutine that the test waits for.
func parallel(t *testing.T, run func(ctx context.Context)) *lifecycle.Group {
	t.Helper()
	group := lifecycle.New(t.Context())
	group.Go(t.Name(), func(ctx context.Context) error { run(ctx); return nil })
	t.Cleanup(func() {
		if err := group.Wait(); err != nil {
			t.Error(err)
		}
	})
	return group
}

// pass lets virtual time pass, then waits until all goroutines are idle.
func pass(d time.Duration) {
	if d > 0 {
		<-time.After(d)
	}
	synctest.Wait()
}

// wait waits, and returns false if ctx ends first. It makes no timer that is due at once. When two
// goroutines of a bubble run such timers at the same time, the race detector of Go 1.26 may crash.
// The bubble has one context for both.
func wait(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// feed is a stream that a test sends to: []T is a batch, an error is an error.
type feed[T any] chan any

func newFeed[T any]() feed[T] { return make(feed[T]) }

func (f feed[T]) stream() streams.Stream[T] {
	return streams.Create(func(ctx context.Context, out streams.Sink[T]) {
		for {
			select {
			case <-ctx.Done():
				return
			case item, open := <-f:
				if err, failed := item.(error); failed {
					out.Error(err)
				} else if open {
					out.Send(item.([]T))
				} else {
					return
				}
			}
		}
	})
}

// send sends a batch and waits until all goroutines are idle.
func (f feed[T]) send(batch ...T) {
	f <- batch
	synctest.Wait()
}
