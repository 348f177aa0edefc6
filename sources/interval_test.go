package sources_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/sources"
	"github.com/bellerophon-io/bellerophon/streams"
)

func TestAnIntervalTicksExactlyAndDoesNotDrift(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 24*time.Hour)
		defer cancel()
		start := time.Now()
		ticks := 0
		err := streams.ForEach(ctx, sources.Interval(7*time.Second), func(batch []time.Time) {
			for _, tick := range batch {
				ticks++
				if want := start.Add(time.Duration(ticks) * 7 * time.Second); !tick.Equal(want) || !time.Now().Equal(want) {
					t.Fatalf("tick %d is %v, at %v, want %v", ticks, tick, time.Now(), want)
				}
			}
			pass(t, 3*time.Second) // The reader is slow, but faster than the ticks.
		}, func(err error) { t.Error(err) })
		if want := 24 * 3600 / 7; ticks != want || err != nil {
			t.Errorf("got %d ticks in a day, want %d: %v", ticks, want, err)
		}
	})
}

func TestASlowReaderOfAnIntervalFindsNoBacklog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		start := time.Now()
		items := sources.Interval(time.Second).Observe(ctx)
		pass(t, time.Hour+time.Millisecond)
		for i := range 9 { // Eight from the channel, and the one that waited.
			if tick := (<-items).V.([]time.Time)[0]; !tick.Equal(start.Add(time.Duration(i+1) * time.Second)) {
				t.Errorf("tick %d is %v", i, tick)
			}
		}
		synctest.Wait()
		if len(items) != 0 {
			t.Errorf("%d more ticks were sent for the past", len(items))
		}
		if tick := (<-items).V.([]time.Time)[0]; !tick.Equal(start.Add(time.Hour+time.Second)) || !tick.Equal(time.Now()) {
			t.Errorf("the next tick is %v, at %v", tick, time.Now())
		}
		cancel()
		for range items { //nolint:revive // Drain until it is closed.
		}
	})
}

func TestIntervalRefusesWhatIsOutOfRange(t *testing.T) {
	for every, want := range map[time.Duration]string{
		0:                    "panic: sources.Interval: every must be 1ms to 8760h, not 0s",
		time.Microsecond:     "panic: sources.Interval: every must be 1ms to 8760h, not 1µs",
		365*24*time.Hour + 1: "panic: sources.Interval: every must be 1ms to 8760h, not 8760h0m0.000000001s",
	} {
		if err := lifecycle.Guard(func() error { sources.Interval(every); return nil }); err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	sources.Interval(time.Millisecond)
	sources.Interval(365 * 24 * time.Hour)
}
