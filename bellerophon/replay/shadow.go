package replay

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/bellerophon-io/bellerophon/bellerophon/screen"
	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/controller/recording"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
)

// Follow calls each with the batches of a recording until ctx or the recording ends.
type Follow func(ctx context.Context, each func(recording.Batch) error) error

// Shadow runs the reconcilers of this program beside an operator whose recording it follows, and prints each attempt
// that decides otherwise. The options are Object and JSON. It returns when ctx or the recording ends: ErrDiffers if there were differences. It
// may be called once in a process.
func Shadow(ctx context.Context, follow Follow, options Options, to *screen.Screen) error {
	object, err := parseObject(options.Object)
	if err != nil {
		return err
	}
	batches := make(chan recording.Batch)
	group := lifecycle.New(ctx)
	group.Go("recording", func(ctx context.Context) error {
		defer close(batches)
		return follow(ctx, func(batch recording.Batch) error {
			select {
			case batches <- batch:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
	})
	first, open := <-batches // The first one names the controllers.
	if !open {
		return group.Wait()
	}
	of := &recording.Recording{Controllers: first.Header.Controllers}
	s := &shadow{to: to, json: options.JSON}
	s.show()
	inTest(ctx, func(t *testing.T) {
		rest := make(chan recording.Batch)
		group.Go("first", func(ctx context.Context) error {
			defer close(rest)
			for batch := first; open; batch, open = <-batches {
				select {
				case rest <- batch:
				case <-ctx.Done():
					return nil
				}
			}
			return nil
		})
		synctest.Test(t, func(t *testing.T) {
			err = controller.Shadow(t.Context(), rest, setup(of), synctest.Wait, func(made controller.Made, difference *controller.Difference) {
				if object.Name == "" || made.Object == object {
					s.take(difference)
				}
			})
		})
	})
	group.Stop()
	err = errors.Join(err, group.Wait())
	to.Keep()
	if !s.json {
		to.Println(fmt.Sprintf("%d attempts compared, %d decided otherwise", s.attempts, s.differing))
	}
	switch {
	case err != nil && ctx.Err() == nil:
		return err
	case s.differing > 0:
		return ErrDiffers{s.differing}
	}
	return nil
}

// shadow is what Shadow shows.
type shadow struct {
	to                  *screen.Screen
	json                bool
	attempts, differing int
}

func (s *shadow) take(difference *controller.Difference) {
	s.attempts++
	if difference != nil {
		s.differing++
		made := differenceOf(difference)
		if s.json {
			_ = json.NewEncoder(s.to).Encode(made) // Nothing reads it any longer.
		} else {
			made.print(s.to)
		}
	}
	s.show()
}

// show shows the counts on a terminal.
func (s *shadow) show() {
	if s.to.IsLive() && !s.json {
		s.to.Live(fmt.Sprintf("%d attempts compared, %d decided otherwise · Ctrl-C ends", s.attempts, s.differing))
	}
}
