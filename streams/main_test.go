package streams_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/streams"
	"github.com/reactivex/rxgo/v2"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errFirst, errSecond = errors.New("first"), errors.New("second")

// script creates a stream that runs the steps: []T is a batch to send, an error is an error to
// send, a time.Duration is a wait, and a string is a panic.
func script[T any](steps ...any) streams.Stream[T] {
	return streams.Create(func(ctx context.Context, out streams.Sink[T]) {
		for _, step := range steps {
			sent := true
			switch step := step.(type) {
			case []T:
				sent = out.Send(append([]T(nil), step...))
			case error:
				sent = out.Error(step)
			case time.Duration:
				sent = wait(ctx, step)
			case string:
				panic(step)
			default:
				panic(fmt.Sprintf("a script has no step %T", step))
			}
			if !sent {
				return
			}
		}
	})
}

// endless sends 0, 1, 2, ... in batches of two, as fast as the receiver takes them.
func endless() streams.Stream[int] {
	return streams.Create(func(_ context.Context, out streams.Sink[int]) {
		for i, sent := 0, true; sent; i += 2 {
			sent = out.Send([]int{i, i + 1})
		}
	})
}

// wait waits for d and returns false if ctx ends first. It creates no timer that is due at once.
// When two goroutines of a bubble run such timers at the same time, the race detector of Go 1.26 may
// crash. The bubble has one context for both.
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

// taken renders an item of an observation as [values] or !error.
func taken[T any](item rxgo.Item) string {
	batch, err := streams.Values[T](item)
	switch {
	case err != nil && len(batch) > 0:
		return fmt.Sprint(batch, " !", err)
	case err != nil:
		return "!" + err.Error()
	}
	return fmt.Sprint(batch)
}

// observed renders everything of a stream, item by item.
func observed[T any](ctx context.Context, stream streams.Stream[T]) []string {
	var items []string
	for item := range stream.Observe(ctx) {
		if text := taken[T](item); text != "[]" { // A batch that MapOnReceive emptied.
			items = append(items, text)
		}
	}
	return items
}

// flat renders everything of a stream value by value, regardless of batches.
func flat[T any](ctx context.Context, stream streams.Stream[T]) []string {
	var values []string
	for item := range stream.Observe(ctx) {
		batch, err := streams.Values[T](item)
		for _, value := range batch {
			values = append(values, fmt.Sprint(value))
		}
		if err != nil {
			values = append(values, "!"+err.Error())
		}
	}
	return values
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

// bubble runs a test in virtual time. The test fails if a goroutine is left at its end.
func bubble(t *testing.T, name string, test func(t *testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		t.Helper()
		synctest.Test(t, test)
	})
}

// ticking sends 0, 1, 2, ... in batches of two, one batch a millisecond.
func ticking() streams.Stream[int] {
	return streams.Create(func(ctx context.Context, out streams.Sink[int]) {
		for i, sent := 0, true; sent; i += 2 {
			sent = out.Send([]int{i, i + 1}) && wait(ctx, time.Millisecond)
		}
	})
}

// itemOf returns the item of a batch with one value.
func itemOf[T any](value T) rxgo.Item { return rxgo.Item{V: []T{value}} }

// slowToEnd sends a value, and takes a minute to clean up after its context has ended.
func slowToEnd(ended *atomic.Bool) streams.Stream[int] {
	return streams.Create(func(ctx context.Context, out streams.Sink[int]) {
		out.Send([]int{1})
		<-ctx.Done()
		<-time.After(time.Minute)
		ended.Store(true)
	})
}
