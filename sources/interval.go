package sources

import (
	"context"
	"fmt"
	"time"

	"github.com/bellerophon-io/bellerophon/streams"
)

const (
	shortestInterval = time.Millisecond
	longestInterval  = 365 * 24 * time.Hour
)

// Interval emits a tick each time the duration every has passed, counted from the start of the
// observation. The value of a tick is the time at which it was due, so ticks do not drift. Interval
// panics unless every is 1ms to 8760h.
//
// A slow reader finds no backlog: ticks that become due while another one waits to be sent are
// skipped. Only the channel of an observation, which holds 8 ticks, is filled ahead of the reader.
func Interval(every time.Duration) streams.Stream[time.Time] {
	if every < shortestInterval || every > longestInterval {
		panic(fmt.Sprintf("sources.Interval: every must be 1ms to 8760h, not %v", every))
	}
	return streams.Create(func(ctx context.Context, out streams.Sink[time.Time]) {
		due := time.Now().Add(every)
		timer := time.NewTimer(every)
		defer timer.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-timer.C:
			}
			if !out.Send([]time.Time{due}) {
				return
			}
			missed := time.Since(due) / every
			due = due.Add((missed + 1) * every)
			timer.Reset(time.Until(due))
		}
	})
}
