package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/bellerophon-io/bellerophon/bellerophon/ask"
	"github.com/bellerophon-io/bellerophon/bellerophon/live"
	"github.com/bellerophon-io/bellerophon/bellerophon/screen"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
)

// view shows answers that follow each other: on a live screen the lines of the last one, elsewhere each one as it comes.
type view[T any] struct {
	add   func(T) error
	lines func(width int) []string // of the answers that were added
	each  func(T) error            // prints an answer, without add
}

// follow asks an operator until ctx ends, and shows the answers. If the operator ends, follow says so, and asks again.
func follow[T any](ctx context.Context, of *asked, q ask.Question, isBetter func(one, than T) bool, shown view[T]) error {
	question, err := asking(of, q, isBetter)
	if err != nil {
		return err
	}
	stdout := screen.New(os.Stdout)
	if !stdout.IsLive() || of.output == "json" {
		return askOn(ctx, question, shown.each)
	}
	board := live.New(stdout, shown.lines)
	group := lifecycle.New(ctx)
	group.Go("screen", board.Run)
	err = ask.Follow(group.Context(), question, func(answer T) error {
		return board.Update(func() error { return shown.add(answer) })
	}, board.Lost)
	group.Stop()
	if drawn := group.Wait(); err == nil {
		err = drawn
	}
	stdout.Keep()
	return err
}

// followAnswers does what answers does for a question that follows. If the operator ends, it says so, and asks again.
func followAnswers[T any](ctx context.Context, of *asked, q ask.Question, isBetter func(one, than T) bool, text func(T) error) error {
	each, err := shown(of.output, text)
	if err != nil {
		return err
	}
	question, err := asking(of, q, isBetter)
	if err != nil {
		return err
	}
	return askOn(ctx, question, each)
}

// askOn asks a question until ctx ends, and calls each with the answers. Lines of stderr say when there is none.
func askOn[T any](ctx context.Context, question func(ctx context.Context, each func(T) error) error, each func(T) error) error {
	var lost time.Time
	return ask.Follow(ctx, question, func(answer T) error {
		if !lost.IsZero() {
			fmt.Fprintf(os.Stderr, "the operator answers again after %v\n", time.Since(lost).Round(time.Second))
			lost = time.Time{}
		}
		return each(answer)
	}, func(reason error) {
		if lost.IsZero() {
			lost = time.Now()
		}
		fmt.Fprintf(os.Stderr, "no answer, asking again until Ctrl-C: %s\n", screen.Clean(reason.Error()))
	})
}
