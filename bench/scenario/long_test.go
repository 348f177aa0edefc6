package scenario

import (
	"context"
	"errors"
	"math"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bellerophon-io/bellerophon/bench/rundir"
	"github.com/bellerophon-io/bellerophon/internal/slope"
)

// itself is a contender that is the test's own process.
type itself struct{ stubborn }

func (itself) PID() int { return os.Getpid() }

func TestTheMemoryIsSampledUntilTheHalfIsOver(t *testing.T) {
	for seconds, want := range map[int]time.Duration{5: 50 * time.Millisecond, 100: time.Second, 3600: time.Second} {
		synctest.Test(t, func(t *testing.T) {
			w, since := &World{process: itself{}}, time.Now()
			samples, err := w.sampleMemory(t.Context(), since, seconds, func(context.Context) error {
				<-time.After(time.Duration(seconds)*time.Second + 7*time.Millisecond)
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			last := samples[len(samples)-1]
			if last.At != time.Duration(seconds)*time.Second+7*time.Millisecond || last.Value < 1e6 {
				t.Errorf("%d s: the last sample is %+v", seconds, last)
			}
			if between := samples[2].At - samples[1].At; between != want {
				t.Errorf("%d s: samples are %v apart, want %v", seconds, between, want)
			}
			measured := rundir.Measured{}
			addSlope(measured, churning, samples, time.Duration(seconds)*time.Second)
			if _, has := measured[rundir.ChurnSlope]; !has {
				t.Errorf("%d s: %d samples have no slope", seconds, len(samples))
			}
		})
	}
}

func TestAHalfEndsWithItsLoadsFailure(t *testing.T) {
	broken := errors.New("broken")
	w := &World{process: itself{}}
	if _, err := w.sampleMemory(t.Context(), time.Now(), 3600, func(context.Context) error { return broken }); !errors.Is(err, broken) {
		t.Errorf("the error is %v", err)
	}
}

func TestTheSlopeIsInPercentOfTheMedianAndWithoutTheWarmUp(t *testing.T) {
	growing := func(length time.Duration, memory func(share float64) float64) (samples []slope.Sample) {
		for i := range 1001 {
			samples = append(samples, slope.Sample{At: time.Duration(i) * length / 1000, Value: memory(float64(i) / 1000)})
		}
		return samples
	}
	for name, test := range map[string]struct {
		memory func(share float64) float64
		want   float64
	}{
		"flat":                     {func(float64) float64 { return 40e6 }, 0},
		"grows in the warm-up":     {func(share float64) float64 { return 40e6 * min(share, 0.3) }, 0},
		"rises and falls":          {func(share float64) float64 { return 40e6 + 1e6*math.Mod(10*share, 1) }, 0},
		"grows":                    {func(share float64) float64 { return 35e6 + 10e6*(share-0.15) }, 25},
		"shrinks after a warm-up":  {func(share float64) float64 { return 45e6 - 10e6*(share-0.15) }, -25},
		"grows from a small level": {func(share float64) float64 { return 3.5e6 + 1e6*(share-0.15) }, 25},
	} {
		measured := rundir.Measured{}
		addSlope(measured, idling, growing(time.Hour, test.memory), time.Hour)
		if got := measured[rundir.IdleSlope]; math.Abs(got-test.want) > 0.6 {
			t.Errorf("%s: the slope is %.2f %%, want %.0f", name, got, test.want)
		}
		if margin, has := measured[rundir.IdleMargin]; !has || margin < 0 || margin > 1 {
			t.Errorf("%s: the interval is %v: %t", name, margin, has)
		}
	}
	measured := rundir.Measured{}
	addSlope(measured, idling, growing(time.Hour, func(float64) float64 { return 40e6 })[:400], time.Hour)
	if len(measured) != 0 {
		t.Errorf("measured %v of too few periods", measured)
	}
}

func TestAWaitLastsUntilItsSecondsHavePassedOrItsContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var shown []int
		w := &World{Progress: func(_ string, done, _ int) { shown = append(shown, done) }}
		since := time.Now()
		<-time.After(2500 * time.Millisecond)
		if err := w.wait(t.Context(), "idle", since, 5); err != nil || time.Since(since) != 5*time.Second {
			t.Errorf("it waited %v: %v", time.Since(since), err)
		}
		if len(shown) != 2 || shown[1] != 4 {
			t.Errorf("it showed %v, want 3 and 4", shown)
		}
		over := errors.New("over")
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(over)
		if err := w.wait(ctx, "idle", time.Now(), 3600); !errors.Is(err, over) {
			t.Errorf("without its context: %v", err)
		}
	})
}
