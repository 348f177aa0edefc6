package streams_test

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bellerophon-io/bellerophon/streams"
	"github.com/reactivex/rxgo/v2"
)

// goOn makes an RxGo operator forward errors, which end the operator by default.
var goOn = rxgo.WithErrorStrategy(rxgo.ContinueOnError)

func timesTen(_ context.Context, value any) (any, error) { return value.(int) * 10, nil }

func isOdd(value any) bool { return value.(int)%2 == 1 }

// channel returns a channel that holds an item for each error or value.
func channel(items ...any) chan rxgo.Item {
	ch := make(chan rxgo.Item, len(items))
	for _, item := range items {
		if err, failed := item.(error); failed {
			ch <- rxgo.Error(err)
		} else {
			ch <- rxgo.Of(item)
		}
	}
	return ch
}

func TestFromTakesAPlainObservable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ch := channel(1, 2, errFirst, 3, 4, 5)
		close(ch)
		plain := rxgo.FromChannel(ch).Filter(isOdd, goOn).Map(timesTen, goOn)
		want := []string{"10", "!first", "30", "50"}
		if got := flat(t.Context(), streams.From[int](plain)); !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
	})
}

func TestFromTakesWhatIsThereAsOneBatch(t *testing.T) {
	ch := channel(1, []int{2, 3}, errFirst, 4, errSecond)
	close(ch)
	want := []string{"[1 2 3]", "!first", "[4]", "!second"}
	if got := observed(t.Context(), streams.From[int](rxgo.FromChannel(ch))); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestFromBoundsItsBatchesAndLosesNothing(t *testing.T) {
	values := make([]any, 1000)
	for i := range values {
		values[i] = i
	}
	ch := channel(values...)
	close(ch)
	next := 0
	for item := range streams.From[int](rxgo.FromChannel(ch)).Observe(t.Context()) {
		batch := item.V.([]int)
		if len(batch) > 256 {
			t.Errorf("a batch has %d values", len(batch))
		}
		for _, value := range batch {
			if value != next {
				t.Fatalf("got %d, want %d", value, next)
			}
			next++
		}
	}
	if next != len(values) {
		t.Errorf("got %d values, want %d", next, len(values))
	}
}

func TestFromMakesAnErrorOfWhatIsOfAnotherType(t *testing.T) {
	ch := channel(1, "two", nil, 3)
	close(ch)
	want := []string{"[1]", "!streams.From: an item is a string, not a int", "!streams.From: an item is a <nil>, not a int", "[3]"}
	if got := observed(t.Context(), streams.From[int](rxgo.FromChannel(ch))); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}

	ch = channel("one")
	close(ch)
	want = []string{"!streams.From: an item is a string, not a fmt.Stringer"}
	if got := observed(t.Context(), streams.From[fmt.Stringer](rxgo.FromChannel(ch))); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestFromTakesSlicesApartWhereAnythingGoes(t *testing.T) {
	ch := channel(1, []any{"two", 3})
	close(ch)
	if got, want := observed(t.Context(), streams.From[any](rxgo.FromChannel(ch))), []string{"[1 two 3]"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestFromFreesAnObservableThatItCancels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ch := make(chan rxgo.Item) // Never closed.
		parallel(t, func(ctx context.Context) {
			for i, sent := 0, true; sent; i++ {
				sent = rxgo.Of(i).SendContext(ctx, ch)
			}
		})
		plain := rxgo.FromChannel(ch).Map(timesTen).Filter(func(any) bool { return true }).Map(timesTen)
		ctx, cancel := context.WithCancel(t.Context())
		items := streams.From[int](plain).Observe(ctx)
		if item := <-items; item.E != nil {
			t.Fatal(item.E)
		}
		cancel()
		for range items { //nolint:revive // Until it is closed.
		}
		// t.Context ends next, and with it the sender. Map, Filter and Map must have returned.
	})
}

func TestFromEndsAlsoWithAnObservableThatIgnoresItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		deaf := make(chan rxgo.Item)
		ctx, cancel := context.WithCancel(t.Context())
		items := streams.From[int](rxgo.FromChannel(deaf)).Observe(ctx)
		synctest.Wait()
		cancel()
		if item, open := <-items; open {
			t.Errorf("got %v, want the end", item)
		}
	})
}

func TestObservableIsAPlainObservableOfSingleValues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plain := script[int]([]int{1, 2}, errFirst, time.Second, []int{3, 4, 5}).Observable().
			Filter(isOdd, goOn).Map(timesTen, goOn)
		want := []string{"10", "!first", "30", "50"}
		for range 2 { // The observable is cold, as the stream is.
			var got []string
			for item := range plain.Observe(rxgo.WithContext(t.Context())) {
				if item.E != nil {
					item.V = "!" + item.E.Error()
				}
				got = append(got, fmt.Sprint(item.V))
			}
			if !slices.Equal(got, want) {
				t.Errorf("got %v, want %v", got, want)
			}
		}
	})
}

func TestObservableKeepsSlicesAndErrorsThatAreValues(t *testing.T) {
	stream := streams.Of[any]([]int{1, 2}, errFirst)
	var got []any
	for item := range stream.Observable().Observe(rxgo.WithContext(t.Context())) {
		got = append(got, item.V)
	}
	if fmt.Sprint(got) != "[[1 2] first]" {
		t.Errorf("got %v", got)
	}
}

func TestObservableFreesTheStreamWhenItIsCancelled(t *testing.T) {
	all := func(any) bool { return true }
	for name, plain := range map[string]rxgo.Observable{
		"observed as it is":        endless().Observable(),
		"behind operators of RxGo": endless().Observable().Map(timesTen).Filter(all).Map(timesTen),
	} {
		bubble(t, name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			items := plain.Observe(rxgo.WithContext(ctx))
			if item := <-items; item.E != nil {
				t.Fatal(item.E)
			}
			synctest.Wait() // Everything waits for the reader.
			cancel()
			for range items { //nolint:revive // Until it is closed.
			}
		})
	}
}

func TestWhenAnObservableHasEndedItsStreamHasToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ended atomic.Bool
		ctx, cancel := context.WithCancel(t.Context())
		items := slowToEnd(&ended).Observable().Observe(rxgo.WithContext(ctx))
		synctest.Wait() // The first value waits for the reader.
		cancel()
		for range items { //nolint:revive // Until it is closed.
		}
		if !ended.Load() {
			t.Error("its channel was closed before the stream had ended")
		}
	})
}
