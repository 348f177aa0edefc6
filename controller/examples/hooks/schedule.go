package main

import (
	"context"
	"time"

	"github.com/bellerophon-io/bellerophon/streams"
	"github.com/robfig/cron/v3"
)

// ticks emits the times of a crontab as they come. Times that pass while a tick waits to be sent are skipped.
func ticks(of cron.Schedule) streams.Stream[time.Time] {
	return streams.Create(func(ctx context.Context, out streams.Sink[time.Time]) {
		for {
			due := of.Next(time.Now())
			if due.IsZero() {
				return // The crontab names no further time.
			}
			timer := time.NewTimer(time.Until(due))
			select {
			case <-timer.C:
			case <-ctx.Done():
				timer.Stop()
				return
			}
			if !out.Send([]time.Time{due}) {
				return
			}
		}
	})
}
