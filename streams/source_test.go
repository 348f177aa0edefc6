package streams_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/bellerophon-io/bellerophon/sources/sourcestest"
	"github.com/bellerophon-io/bellerophon/streams"
)

// numbers is a world that counts.
type numbers struct{ out chan int }

func (n numbers) emit(ctx context.Context, from, to int) error {
	for i := from; i < to; i++ {
		select {
		case n.out <- i:
		case <-ctx.Done():
			return nil
		}
	}
	return nil
}

// inOrder returns an error unless the values from from to to-1 are there, each once and in order.
func inOrder(values []int, from, to int) error {
	want := from
	for _, value := range values {
		switch {
		case value < from:
		case value != want:
			return fmt.Errorf("%d follows %d", value, want-1)
		default:
			want++
		}
	}
	if want < to {
		return fmt.Errorf("%d is missing", want)
	}
	return nil
}

func (n numbers) stream() streams.Stream[int] {
	return streams.Create(func(ctx context.Context, out streams.Sink[int]) {
		for {
			select {
			case value := <-n.out:
				if !out.Send([]int{value}) {
					return
				}
			case <-ctx.Done():
				return
			}
		}
	})
}

// A snapshot replaces what an observer has missed, so a slow observer of Share misses nothing.
func TestAShareIsASource(t *testing.T) {
	sourcestest.TestSourceInVirtualTime(t, func(*testing.T) sourcestest.Source[int] {
		n := numbers{make(chan int)}
		shared := streams.Share(n.stream(), streams.ShareOptions[int, []int]{
			Fold:   func(all, batch []int) []int { return append(all, batch...) },
			Replay: slices.Clone[[]int],
		})
		return sourcestest.Source[int]{Stream: shared, Emit: n.emit, Complete: inOrder, Blocks: true, Shares: true}
	})
}
