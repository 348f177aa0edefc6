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
)

func drained(queue *streams.Queue[int]) streams.Stream[int] { return streams.Create(queue.Drain) }

func TestAQueueJoinsWhatIsPutWhileTheReceiverIsBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		queue := streams.NewQueue[int]()
		queue.Put(t.Context(), 1)
		queue.Put(t.Context(), 2, 3)
		queue.Error(t.Context(), errFirst)
		queue.Error(t.Context(), errSecond)
		queue.Put(t.Context(), 4)
		queue.Put(t.Context(), 5)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		want := []string{"[1 2 3] !first", "!second", "[4 5]"}
		if got := observed(ctx, drained(queue)); !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
	})
}

func TestAQueueSendsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		queue := streams.NewQueue[int]()
		items := drained(queue).Observe(t.Context())
		for i := range 3 {
			queue.Put(t.Context(), i)
			synctest.Wait()
			if len(items) != 1 {
				t.Fatalf("%d items are there after Put", len(items))
			}
			if got, want := taken[int](<-items), fmt.Sprintf("[%d]", i); got != want {
				t.Errorf("got %v, want %v", got, want)
			}
		}
	})
}

func TestAQueueCopiesWhatIsPut(t *testing.T) {
	queue := streams.NewQueue[int]()
	values := []int{1, 2}
	queue.Put(t.Context(), values...)
	values[0] = 99
	if got := taken[int](<-drained(queue).Observe(t.Context())); got != "[1 2]" {
		t.Errorf("got %v, want what was put", got)
	}
}

func TestAFullQueueWaitsForRoomOrForItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		queue := streams.NewQueue[int]()
		if !queue.Put(t.Context(), make([]int, 1<<14)...) {
			t.Fatal("the first Put was refused")
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		started := time.Now()
		if queue.Put(ctx, 1) || queue.Error(ctx, errFirst) {
			t.Error("a full queue took more")
		}
		if waited := time.Since(started); waited != time.Second {
			t.Errorf("Put waited %v, want 1s", waited)
		}
		var puts atomic.Int64
		for i := range 3 {
			parallel(t, func(ctx context.Context) {
				if queue.Put(ctx, i) {
					puts.Add(1)
				}
			})
			synctest.Wait()
		}
		if puts.Load() != 0 {
			t.Fatal("Put did not wait")
		}
		observation, end := context.WithCancel(t.Context())
		items := drained(queue).Observe(observation)
		values := 0
		for range 2 {
			batch, _ := streams.Values[int](<-items)
			values += len(batch)
			synctest.Wait()
		}
		end()
		for range items { // Until it is closed.
		}
		if puts.Load() != 3 || values != 1<<14+3 {
			t.Errorf("with room %d of 3 values were put, and %d values came", puts.Load(), values)
		}
	})
}

func TestManyMayPutAtOnce(t *testing.T) {
	const writers, each = 8, 1000
	queue := streams.NewQueue[int]()
	for w := range writers {
		parallel(t, func(ctx context.Context) {
			for i := range each {
				queue.Put(ctx, w*each+i)
			}
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	next := make([]int, writers)
	left := writers * each
	err := streams.ForEach(ctx, drained(queue), func(batch []int) {
		for _, value := range batch {
			if w := value / each; value%each != next[w] {
				t.Errorf("writer %d: got %d, want %d", w, value%each, next[w])
			} else {
				next[w]++
			}
			left--
		}
		if left == 0 {
			cancel()
		}
	}, func(err error) { t.Error(err) })
	if err != nil || left != 0 {
		t.Errorf("%d values are missing: %v", left, err)
	}
}
