package sources_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/sources"
	"github.com/bellerophon-io/bellerophon/streams"
)

func TestAChannelIsBatchedWhileTheReceiverIsBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ch := make(chan int)
		items := sources.Channel(ch).Observe(t.Context())
		var sent []int
		for i := range 100 {
			ch <- i
			synctest.Wait()
			sent = append(sent, i)
		}
		close(ch)
		var got []int
		batches := 0
		for item := range items {
			batch, err := streams.Values[int](item)
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, batch...)
			batches++
		}
		if !slices.Equal(got, sent) {
			t.Errorf("got %v", got)
		}
		if batches > 12 {
			t.Errorf("got %d batches, want one for all values that came while the receiver was busy", batches)
		}
	})
}

func TestAChannelWhoseReceiverIsStuckMakesItsSenderWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ch := make(chan int)
		ctx, cancel := context.WithCancel(t.Context())
		sources.Channel(ch).Observe(ctx)
		sent := 0
		group := lifecycle.New(ctx)
		group.Go("sender", func(ctx context.Context) error {
			for {
				select {
				case ch <- sent:
					sent++
				case <-ctx.Done():
					return nil
				}
			}
		})
		synctest.Wait()
		if sent < 256 || sent > 300 {
			t.Errorf("%d values were taken ahead of the reader", sent)
		}
		cancel()
		if err := group.Wait(); err != nil {
			t.Error(err)
		}
	})
}

func TestAChannelIsNotReadUnobservedAndEndsWithTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ch := make(chan int, 1)
		ch <- 1
		stream := sources.Channel(ch)
		synctest.Wait()
		if len(ch) != 1 {
			t.Fatal("it was read before it was observed")
		}
		for range 2 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			values, errs := streams.Collect(ctx, stream)
			cancel()
			if len(values) > 1 || len(errs) > 0 {
				t.Errorf("got %v and %v", values, errs)
			}
		}
		values, _ := streams.Collect(t.Context(), sources.Channel(closed(2, 3)))
		if !slices.Equal(values, []int{2, 3}) {
			t.Errorf("got %v from a closed channel", values)
		}
	})
}

// closed returns a closed channel that holds values.
func closed(values ...int) <-chan int {
	ch := make(chan int, len(values))
	for _, value := range values {
		ch <- value
	}
	close(ch)
	return ch
}
