package ask

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// The times of [Follow]. The pause between two questions doubles from the first one to the longest.
const (
	firstPause   = time.Second
	longestPause = 5 * time.Second
	giveUp       = 10 * time.Minute
)

// Follow asks a question that follows until ctx ends. When an answer ends, the question is asked again: the operator may have been
// replaced. lost is called with the reason, and with each other reason until there is an answer. Follow returns the error of each, and of a first question without an answer. It also returns one
// if the operator refuses for good, or has not answered for ten minutes.
func Follow[T any](ctx context.Context, question func(ctx context.Context, each func(T) error) error, each func(T) error, lost func(reason error)) error {
	var unshown error // of each
	answered, reason, last, pause := false, "", time.Now(), firstPause
	for {
		err := question(ctx, func(answer T) error {
			answered, reason, last, pause = true, "", time.Now(), firstPause
			unshown = each(answer)
			return unshown
		})
		var refused *Refusal
		switch {
		case unshown != nil:
			return unshown
		case ctx.Err() != nil:
			return nil
		case !answered && err != nil, errors.As(err, &refused) && refused.IsLasting():
			return err
		case time.Since(last) > giveUp:
			return fmt.Errorf("the operator has not answered for %v; run the command again when it is back (%w)", giveUp, err)
		case err == nil:
			err = errors.New("the operator has ended")
		}
		if reason != err.Error() {
			reason = err.Error()
			lost(err)
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil
		}
		pause = min(2*pause, longestPause)
	}
}
