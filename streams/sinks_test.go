package streams_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/streams"
)

func TestForEachCallsInOrderAndReturnsAtTheEnd(t *testing.T) {
	var got []string
	err := streams.ForEach(t.Context(), script[int]([]int{1, 2}, errFirst, []int{3}),
		func(batch []int) { got = append(got, flat(t.Context(), streams.Of(batch...))...) },
		func(err error) { got = append(got, "!"+err.Error()) })
	if want := []string{"1", "2", "!first", "3"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("got %v and %v, want %v", got, err, want)
	}
}

func TestForEachHandsOverWhatComesAfterTheEndOfItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// A source that sends an item after ctx has ended, as Reconcile does for attempts in flight.
		graceful := streams.Create(func(ctx context.Context, out streams.Sink[string]) {
			<-ctx.Done()
			<-time.After(time.Minute)
			out.Channel() <- itemOf("last")
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		started := time.Now()
		var got []string
		err := streams.ForEach(ctx, graceful, func(batch []string) { got = append(got, batch...) }, nil)
		if err != nil || !slices.Equal(got, []string{"last"}) || time.Since(started) != time.Minute+time.Second {
			t.Errorf("got %v and %v after %v", got, err, time.Since(started))
		}
	})
}

func TestAPanicOfACallbackEndsForEach(t *testing.T) {
	onBatch := func([]int) { panic(errFirst) }
	onError := func(error) { panic(errFirst) }
	for name, in := range map[string]streams.Stream[int]{
		"of onBatch": endless(),
		"of onError": script[int](errSecond, time.Hour),
	} {
		bubble(t, name, func(t *testing.T) {
			err := streams.ForEach(t.Context(), in, onBatch, onError)
			var panicked *lifecycle.PanicError
			if !errors.As(err, &panicked) || !errors.Is(err, errFirst) || !strings.Contains(string(panicked.Stack), "sinks_test.go") {
				t.Errorf("got %v, want a PanicError with its stack that wraps %v", err, errFirst)
			}
		})
	}
}

func TestWhenForEachReturnsItsStreamHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ended atomic.Bool
		err := streams.ForEach(t.Context(), slowToEnd(&ended), func([]int) { panic(errFirst) }, nil)
		if !errors.Is(err, errFirst) || !ended.Load() {
			t.Errorf("ForEach returned %v, and the stream had ended: %v; want %v and true", err, ended.Load(), errFirst)
		}
	})
}

func TestCollectReturnsValuesAndErrors(t *testing.T) {
	values, errs := streams.Collect(t.Context(), script[int]([]int{1, 2}, errFirst, []int{3}, errSecond))
	if !slices.Equal(values, []int{1, 2, 3}) || !slices.Equal(errs, []error{errFirst, errSecond}) {
		t.Errorf("got %v and %v", values, errs)
	}
}
