package streams_test

import (
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bellerophon-io/bellerophon/streams"
)

func TestAStreamEndsWhatIsBesideItWhenItEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		started := time.Now()
		first := script[int](1500*time.Millisecond, []int{10}, errFirst)
		got := flat(t.Context(), streams.MergeWith(first, every(1)))
		slices.Sort(got)
		if want := []string{"!first", "1", "1", "10"}; !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
		if took := time.Since(started); took != 1500*time.Millisecond {
			t.Errorf("it took %v, want 1.5s", took)
		}
	})
}

func TestWhatIsBesideAStreamMayEndBeforeIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := script[int](time.Second, []int{10})
		for name, other := range map[string]streams.Stream[int]{"ends": script[int](errFirst), "panics": script[int]("broken")} {
			got := flat(t.Context(), streams.MergeWith(first, other))
			if len(got) != 2 || got[1] != "10" {
				t.Errorf("merged with a stream that %s: got %v", name, got)
			}
		}
	})
}

func TestAStreamWaitsForTheReturnOfWhatIsBesideIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ended atomic.Bool
		flat(t.Context(), streams.MergeWith(script[int](time.Second), slowToEnd(&ended)))
		if !ended.Load() {
			t.Error("the merged stream ended before the other one had returned")
		}
	})
}
