package scenario

import (
	"context"
	"fmt"
	"time"

	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
)

const (
	// inFlight is how many requests of a closed load are in flight.
	inFlight = 16
	// openInFlight is how many requests of an open load may be in flight. With more, the API server
	// cannot take the rate, which counts as a failure of the harness.
	openInFlight = 4096
)

// asFastAsPossible calls send for 0 to n-1, up to inFlight calls concurrently.
func asFastAsPossible(ctx context.Context, n int, send func(ctx context.Context, i int) error) error {
	group := lifecycle.New(ctx)
	next := make(chan int)
	for range min(n, inFlight) {
		group.Go("load", func(ctx context.Context) error {
			for i := range next {
				if err := send(ctx, i); err != nil {
					return err
				}
			}
			return nil
		})
	}
	group.Go("load", func(ctx context.Context) error {
		defer close(next)
		for i := range n {
			select {
			case next <- i:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		return nil
	})
	if err := group.Wait(); err != nil {
		return fmt.Errorf("sending the load: %w", err)
	}
	return ctx.Err()
}

// atRate calls send for 0 to n-1, each when it is due, even if earlier calls have not returned.
// rate is in calls per second.
func atRate(ctx context.Context, rate float64, n int, send func(ctx context.Context, i int, due time.Time) error) error {
	group := lifecycle.New(ctx)
	slots := make(chan struct{}, openInFlight)
	timer := time.NewTimer(0)
	defer timer.Stop()
	begin := time.Now()
	group.Go("load", func(ctx context.Context) error {
		for i := range n {
			due := begin.Add(time.Duration(float64(i) / rate * float64(time.Second)))
			timer.Reset(time.Until(due))
			select {
			case <-timer.C:
			case <-ctx.Done():
				return ctx.Err()
			}
			select {
			case slots <- struct{}{}:
			default:
				return fmt.Errorf("%d requests are in flight: the API server cannot take %.1f requests per second", openInFlight, rate)
			}
			group.Go("load", func(ctx context.Context) error {
				defer func() { <-slots }()
				return send(ctx, i, due)
			})
		}
		return nil
	})
	if err := group.Wait(); err != nil {
		return fmt.Errorf("sending the load: %w", err)
	}
	return ctx.Err()
}
