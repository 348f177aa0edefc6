package streams_test

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/bellerophon-io/bellerophon/streams"
	"github.com/reactivex/rxgo/v2"
)

// Merge keeps the order within each input. An error of one input ends neither that input nor the
// others.
func ExampleMerge() {
	horses := streams.Of("pegasus", "arion")
	monsters := streams.Of("chimera", "hydra")
	names, errs := streams.Collect(context.Background(), streams.Merge(horses, monsters))
	slices.Sort(names) // How the inputs interleave is left to chance.
	fmt.Println(names, errs)
	// Output:
	// [arion chimera hydra pegasus] []
}

// Batch splits large batches, and joins small ones while the receiver is busy.
func ExampleBatch() {
	_ = streams.ForEach(context.Background(), streams.Batch(streams.Of(1, 2, 3, 4, 5), 2),
		func(batch []int) { fmt.Println(batch) },
		func(err error) { fmt.Println(err) })
	// Output:
	// [1 2]
	// [3 4]
	// [5]
}

// Share lets several observers share one observation. Each gets a snapshot of the state so far, and
// then the values that follow.
func ExampleShare() {
	horses := make(chan string)
	source := streams.Create(func(_ context.Context, out streams.Sink[string]) {
		for horse := range horses {
			out.Send([]string{horse})
		}
	})
	shared := streams.Share(source, streams.ShareOptions[string, []string]{
		Fold:   func(all, batch []string) []string { return append(all, batch...) },
		Replay: slices.Clone[[]string],
	})
	first := shared.Observe(context.Background())
	horses <- "pegasus"
	fmt.Println("first:", (<-first).V)

	second := shared.Observe(context.Background())
	fmt.Println("second:", (<-second).V)
	horses <- "arion"
	fmt.Println("first:", (<-first).V, "second:", (<-second).V)
	close(horses)
	for range first {
	}
	for range second {
	}
	// Output:
	// first: [pegasus]
	// second: [pegasus]
	// first: [arion] second: [arion]
}

// MapOnReceive creates a stage from a function over batches.
func ExampleMapOnReceive() {
	shout := streams.MapOnReceive(streams.Of("fly", "pegasus"), func(batch []string) ([]string, error) {
		for i := range batch {
			batch[i] = strings.ToUpper(batch[i])
		}
		return batch, nil
	})
	fmt.Println(streams.Collect(context.Background(), shout))
	// Output:
	// [FLY PEGASUS] []
}

// Lift creates a stage from a function. Its state, here a sum, belongs to one observation.
func ExampleLift() {
	sums := streams.Lift(streams.Of(1, 2, 3), func(_ context.Context, in <-chan rxgo.Item, out streams.Sink[int]) {
		sum := 0
		for item := range in {
			batch, err := streams.Values[int](item)
			if err != nil && !out.Error(err) {
				return
			}
			for _, value := range batch {
				sum += value
				if !out.Send([]int{sum}) {
					return
				}
			}
		}
	})
	fmt.Println(streams.Collect(context.Background(), sums))
	fmt.Println(streams.Collect(context.Background(), sums))
	// Output:
	// [1 3 6] []
	// [1 3 6] []
}

// Observable passes a stream to RxGo operators, and From turns the result into a stream again.
func ExampleFrom() {
	plain := streams.Of(1, 2, 3, 4).Observable().
		Filter(func(value any) bool { return value.(int)%2 == 0 }).
		Map(func(_ context.Context, value any) (any, error) { return fmt.Sprint("number ", value), nil })
	fmt.Println(streams.Collect(context.Background(), streams.From[string](plain)))
	// Output:
	// [number 2 number 4] []
}
