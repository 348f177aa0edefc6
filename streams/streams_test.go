package streams_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bellerophon-io/bellerophon/streams"
	"github.com/reactivex/rxgo/v2"
)

func TestTheZeroStreamIsEmpty(t *testing.T) {
	if got := observed(t.Context(), streams.Stream[int]{}); got != nil {
		t.Errorf("got %v, want nothing", got)
	}
}

func TestOfSendsOneBatchAndNoneOfNothing(t *testing.T) {
	if got, want := observed(t.Context(), streams.Of(1, 2, 3)), []string{"[1 2 3]"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got := observed(t.Context(), streams.Of[int]()); got != nil {
		t.Errorf("got %v, want nothing", got)
	}
}

func TestOfGivesEachObservationABatchOfItsOwn(t *testing.T) {
	stream := streams.Of(1, 2, 3)
	first := (<-stream.Observe(t.Context())).V.([]int)
	first[0] = 99
	if got, want := observed(t.Context(), stream), []string{"[1 2 3]"}; !slices.Equal(got, want) {
		t.Errorf("after a reader changed its batch another gets %v, want %v", got, want)
	}
}

func TestMapOnReceiveSendsNoEmptyBatches(t *testing.T) {
	odd := streams.MapOnReceive(script[int]([]int{2, 4}, []int{1, 2, 3}, errFirst, []int{6}), func(batch []int) ([]int, error) {
		return slices.DeleteFunc(batch, func(value int) bool { return value%2 == 0 }), nil
	})
	if got, want := observed(t.Context(), odd), []string{"[1 3]", "!first"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestMergeKeepsTheOrderWithinEachInputAndWaitsForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		merged := streams.Merge(
			script[int]([]int{1}, 2*time.Second, []int{2}, errFirst),
			script[int](time.Second, []int{10}, "broken"),
			script[int](3*time.Second, []int{20}, errSecond, []int{21}),
		)
		started := time.Now()
		want := []string{"[1]", "[10]", "!panic: broken", "[2]", "!first", "[20]", "!second", "[21]"}
		if got := observed(t.Context(), merged); !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
		if took := time.Since(started); took != 3*time.Second {
			t.Errorf("the stream ended after %v, want 3s", took)
		}
	})
}

func TestMergeOfNothingIsEmpty(t *testing.T) {
	if got := observed(t.Context(), streams.Merge[int]()); got != nil {
		t.Errorf("got %v, want nothing", got)
	}
}

func TestASlowReaderHoldsUpTheSourceAndLosesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		steps := make([]any, 100)
		want := make([]string, 100)
		for i := range steps {
			steps[i], want[i] = []int{i}, fmt.Sprintf("[%d]", i)
		}
		items := script[int](steps...).Observe(t.Context())
		var got []string
		for item := range items {
			synctest.Wait()
			if len(items) > cap(items) || cap(items) > 16 {
				t.Fatalf("%d items of %d are ahead of the reader", len(items), cap(items))
			}
			got = append(got, taken[int](item))
		}
		if !slices.Equal(got, want) {
			t.Errorf("got %v", got)
		}
	})
}

func TestBatchJoinsWhatComesWhileTheReceiverIsBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		steps := make([]any, 0, 201)
		for i := range 200 {
			steps = append(steps, []int{i})
		}
		steps = append(steps, errFirst)
		items := streams.Batch(script[int](steps...), 10).Observe(t.Context())
		synctest.Wait() // The channel is full: from here on batches grow.
		ahead := len(items)
		var got, sizes []int
		for item := range items {
			synctest.Wait()
			if item.E != nil {
				if len(got) != 200 {
					t.Errorf("the error came behind %d values, want all 200", len(got))
				}
				continue
			}
			batch := item.V.([]int)
			got, sizes = append(got, batch...), append(sizes, len(batch))
		}
		for i, value := range got {
			if value != i {
				t.Fatalf("got %v", got)
			}
		}
		if len(got) != 200 || len(sizes) <= ahead || slices.Max(sizes) != 10 {
			t.Errorf("got batches of %v; want the one behind the full channel to have 10", sizes)
		}
	})
}

func TestTheBatchesOfBatchShareNoMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		parts := streams.Batch(script[int]([]int{1, 2, 3, 4, 5, 6}, time.Second), 2)
		longer := streams.MapOnReceive(parts, func(batch []int) ([]int, error) { return append(batch, 99), nil })
		want := []string{"[1 2 99]", "[3 4 99]", "[5 6 99]"}
		if got := observed(t.Context(), longer); !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
	})
}

func TestBatchDelaysNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		items := streams.Batch(script[int]([]int{1}, time.Second, []int{2}), 10).Observe(t.Context())
		started := time.Now()
		if got := taken[int](<-items); got != "[1]" || time.Since(started) != 0 {
			t.Errorf("got %v after %v, want [1] at once", got, time.Since(started))
		}
		if got := taken[int](<-items); got != "[2]" || time.Since(started) != time.Second {
			t.Errorf("got %v after %v, want [2] after 1s", got, time.Since(started))
		}
	})
}

func TestBatchKeepsToItsMaximumAlsoForLargerBatches(t *testing.T) {
	in := script[int]([]int{1, 2, 3, 4, 5}, errFirst, []int{6, 7, 8})
	want := []string{"[1 2]", "[3 4]", "[5]", "!first", "[6 7]", "[8]"}
	if got := observed(t.Context(), streams.Batch(in, 2)); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestBatchRefusesAMaximumBelowOne(t *testing.T) {
	defer func() {
		if got, want := recover(), "streams.Batch: most must be at least 1"; got != want {
			t.Errorf("panicked with %v, want %v", got, want)
		}
	}()
	streams.Batch(streams.Of(1), 0)
}

func TestASinkSendsInASelectOfTheOperator(t *testing.T) {
	stream := streams.Create(func(ctx context.Context, out streams.Sink[int]) {
		select {
		case out.Channel() <- rxgo.Item{V: []int{1}}:
		case <-ctx.Done():
		}
	})
	if got, want := observed(t.Context(), stream), []string{"[1]"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestASinkTakesNothingAfterTheEndOfTheObservation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		taken := 0
		items := streams.Create(func(ctx context.Context, out streams.Sink[int]) {
			<-ctx.Done()
			for range 50 {
				if out.Send([]int{1}) || out.Error(errFirst) {
					taken++
				}
			}
		}).Observe(ctx)
		cancel()
		for range items { //nolint:revive // Until it is closed.
		}
		if taken > 0 {
			t.Errorf("it took %d of 50 items", taken)
		}
	})
}
