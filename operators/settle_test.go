package operators_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bellerophon-io/bellerophon/operators"
	"github.com/bellerophon-io/bellerophon/streams"
)

func second() time.Duration { return time.Second }

func TestSettleTellsWhenNothingCameForTheQuietTime(t *testing.T) {
	for name, test := range map[string]debounceTest{
		"nothing comes at all":           {"3s", "0s false | 1s true"},
		"something comes once":           {"400ms a@1 | 3s", "0s false | 1.4s true"},
		"the quiet time starts anew":     {"400ms a@1 | 900ms a@2 | 1.8s a@3 | 5s", "0s false | 2.8s true"},
		"something comes after that":     {"3s a@1 | 3.9s a@2 | 9s", "0s false | 1s true | 3s false | 4.9s true"},
		"what comes while it is quiet":   {"3s a@1 | 4.1s a@2 | 9s", "0s false | 1s true | 3s false | 4s true | 4.1s false | 5.1s true"},
		"errors count and go no further": {"400ms !e | 3s !e | 9s", "0s false | 1.4s true | 3s false | 4s true"},
		"the end emits nothing":          {"400ms a@1 | 500ms", "0s false"},
	} {
		bubble(t, name, func(t *testing.T) {
			stream := operators.Settle(scheduled(test.in), operators.SettleOptions{Quiet: second})
			if got := logged(stream.Observe(t.Context()), plain[bool]); got != test.out {
				t.Errorf("input %s\ngot   %s\nwant  %s", test.in, got, test.out)
			}
		})
	}
}

func TestNothingIsQuietWhileSomethingIsBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stats := &operators.StageStats{}
		stats.Running.Add(1)
		parallel(t, func(ctx context.Context) {
			wait(ctx, 4200*time.Millisecond)
			stats.Running.Add(-1)
			stats.Waiting.Add(1)
			wait(ctx, 2*time.Second)
			stats.Waiting.Add(-1)
		})
		stream := operators.Settle(scheduled("500ms a@1 | 20s"), operators.SettleOptions{Quiet: second, Busy: stats.Busy})
		// Settle calls Busy after each quiet period, from 1.5 s on. The stage is busy until 6.2 s.
		if got, want := logged(stream.Observe(t.Context()), plain[bool]), "0s false | 6.5s true"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	})
}

func TestTheQuietTimeMayChange(t *testing.T) {
	for name, test := range map[string]struct {
		first time.Duration
		at    time.Duration
		then  time.Duration
		want  string
	}{
		"it grows":                      {time.Second, 300 * time.Millisecond, 3 * time.Second, "0s false | 3.5s true"},
		"it grows meanwhile":            {time.Second, 700 * time.Millisecond, 3 * time.Second, "0s false | 3.5s true"},
		"it shrinks":                    {time.Hour, 300 * time.Millisecond, time.Second, "0s false | 1.5s true"},
		"it is never below 1 ms":        {time.Second, 300 * time.Millisecond, -1, "0s false | 501ms true"},
		"it stays what it was at first": {time.Second, 300 * time.Millisecond, time.Second, "0s false | 1.5s true"},
	} {
		bubble(t, name, func(t *testing.T) {
			var now atomic.Int64
			now.Store(int64(test.first))
			parallel(t, func(ctx context.Context) {
				wait(ctx, test.at)
				now.Store(int64(test.then))
			})
			stream := operators.Settle(scheduled("500ms a@1 | 10s"), operators.SettleOptions{
				Quiet: func() time.Duration { return time.Duration(now.Load()) },
			})
			if got := logged(stream.Observe(t.Context()), plain[bool]); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}

func TestWhatSettleIsNotSentButFindsCountsToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var last atomic.Pointer[time.Time]
		mark := func() { now := time.Now(); last.Store(&now) }
		mark()
		parallel(t, func(ctx context.Context) {
			for _, after := range []time.Duration{500 * time.Millisecond, 900 * time.Millisecond, 950 * time.Millisecond} { // until 2.35 s
				wait(ctx, after)
				mark()
			}
			wait(ctx, 2150*time.Millisecond) // 4.5 s, half a second after the item
			mark()
		})
		stream := operators.Settle(scheduled("4s a@1 | 9s"), operators.SettleOptions{
			Quiet: second, Last: func() time.Time { return *last.Load() },
		})
		if got, want := logged(stream.Observe(t.Context()), plain[bool]), "0s false | 3.35s true | 4s false | 5.5s true"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	})
}

func TestAQuietTimeThatShrinksBetweenTwoItemsIsNoticed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		period := func() time.Duration {
			if time.Since(began) < 2*time.Second {
				return time.Hour
			}
			return 2500 * time.Millisecond
		}
		stream := operators.Settle(scheduled("9s"), operators.SettleOptions{Quiet: period, Last: func() time.Time { return began }})
		if got, want := logged(stream.Observe(t.Context()), plain[bool]), "0s false | 2.5s true"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	})
}

func TestSettleNeedsAQuietTime(t *testing.T) {
	defer func() {
		if got, want := fmt.Sprint(recover()), "settle: Quiet is not set; give the quiet period"; got != want {
			t.Errorf("panicked with %q, want %q", got, want)
		}
	}()
	operators.Settle(streams.Stream[int]{}, operators.SettleOptions{})
}
