package cache_test

import (
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/cache"
)

func TestLoopOptionsOutOfRangeAreRefusedByName(t *testing.T) {
	for _, test := range []struct {
		options cache.LoopOptions
		want    string
	}{
		{cache.LoopOptions{Factor: 0.5}, "loop: Factor is 0.5; allowed is 1 to 1000"},
		{cache.LoopOptions{Factor: 1001}, "loop: Factor is 1001; allowed is 1 to 1000"},
		{cache.LoopOptions{Floor: time.Microsecond}, "loop: Floor is 1µs; allowed is 1ms to 1m"},
		{cache.LoopOptions{Floor: time.Hour}, "loop: Floor is 1h0m0s; allowed is 1ms to 1m"},
		{cache.LoopOptions{Smoothing: -0.1}, "loop: Smoothing is -0.1; allowed is above 0, up to 1"},
		{cache.LoopOptions{Smoothing: 1.5}, "loop: Smoothing is 1.5; allowed is above 0, up to 1"},
	} {
		if _, err := cache.New(test.options, nil); err == nil || err.Error() != test.want {
			t.Errorf("the error is %v, want %s", err, test.want)
		}
	}
	for _, options := range []cache.LoopOptions{
		{},
		{Factor: 1, Floor: time.Millisecond, Smoothing: 1},
		{Factor: 1000, Floor: time.Minute, Smoothing: 0.001},
	} {
		if _, err := cache.New(options, nil); err != nil {
			t.Errorf("%+v are refused: %v", options, err)
		}
	}
}

func TestTheLoopDurationIsSmoothed(t *testing.T) {
	made, err := cache.New(cache.LoopOptions{Smoothing: 0.5}, nil)
	if err != nil {
		t.Fatal(err)
	}
	loop := made.Loop()
	if loop.Duration() != 0 {
		t.Errorf("the duration is %v before the first measurement", loop.Duration())
	}
	for _, step := range []struct{ measured, want time.Duration }{
		{400 * time.Millisecond, 400 * time.Millisecond}, // The first measurement counts fully.
		{200 * time.Millisecond, 300 * time.Millisecond},
		{300 * time.Millisecond, 300 * time.Millisecond},
		{time.Second, 650 * time.Millisecond},
	} {
		loop.Observe(step.measured)
		if loop.Duration() != step.want {
			t.Errorf("after %v the duration is %v, want %v", step.measured, loop.Duration(), step.want)
		}
	}
}

func TestQuietIsTheFactorTimesTheDurationAboveTheFloor(t *testing.T) {
	made, err := cache.New(cache.LoopOptions{Factor: 3, Floor: 20 * time.Millisecond, Smoothing: 1}, nil)
	if err != nil {
		t.Fatal(err)
	}
	loop := made.Loop()
	for _, step := range []struct{ measured, want time.Duration }{
		{0, 60 * time.Millisecond}, // The floor applies, as before the first measurement.
		{5 * time.Millisecond, 60 * time.Millisecond},
		{20 * time.Millisecond, 60 * time.Millisecond},
		{100 * time.Millisecond, 300 * time.Millisecond},
		{time.Millisecond, 60 * time.Millisecond},
	} {
		if step.measured > 0 {
			loop.Observe(step.measured)
		}
		if loop.QuietPeriod() != step.want {
			t.Errorf("after %v quiet is %v, want %v", step.measured, loop.QuietPeriod(), step.want)
		}
	}
}

func TestTheDefaultsOfTheLoopAreTheDocumentedOnes(t *testing.T) {
	c, _ := newCache(t)
	if quiet := c.Loop().QuietPeriod(); quiet != 100*time.Millisecond {
		t.Errorf("quiet is %v before the first measurement, want 10 times 10 ms", quiet)
	}
	c.Loop().Observe(100 * time.Millisecond)
	c.Loop().Observe(200 * time.Millisecond)
	if duration := c.Loop().Duration(); duration != 120*time.Millisecond {
		t.Errorf("the duration is %v, want 120ms by a smoothing of 0.2", duration)
	}
}
