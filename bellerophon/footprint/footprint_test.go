package footprint

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// load is a constant load for a number of seconds.
type load struct {
	seconds int
	share   float64 // of one processor
}

func TestPagesAreReleasedAfterWorkAndNeverDuringIt(t *testing.T) {
	for _, test := range []struct {
		name  string
		loads []load
		want  []int // seconds of the releases
	}{
		{"a start, then idle", []load{{3, 0.5}, {100, 0.01}}, []int{10, 30, 50, 70, 90}},
		{"a start that hardly works", []load{{1, 0.2}, {100, 0.001}}, []int{5}},
		{"nothing to do for long", []load{{1, 1}, {600, 0}}, []int{10}},
		{"busy for ever", []load{{100, 0.3}}, nil},
		{"a little to do for ever", []load{{20, 0.04}}, []int{5, 10, 15, 20}},
		{"bursts", []load{{2, 1}, {18, 0}, {2, 1}, {18, 0}}, []int{10, 30}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if at := releasesUnder(t, test.loads...); !slices.Equal(at, test.want) {
				t.Errorf("pages are released after %v seconds, want %v", at, test.want)
			}
		})
	}
}

// releasesUnder returns the seconds after which pages are released under successive loads.
func releasesUnder(t *testing.T, loads ...load) (at []int) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		used := func() (cpu time.Duration, known bool) {
			left := time.Since(began)
			for _, load := range loads {
				spent := min(left, time.Duration(load.seconds)*time.Second)
				cpu += time.Duration(load.share * float64(spent))
				left -= spent
			}
			return cpu, true
		}
		trimming := lifecycle.New(t.Context())
		trimming.Go("footprint", trimmer{used, func() { at = append(at, int(time.Since(began)/time.Second)) }}.run)
		total := 0
		for _, load := range loads {
			total += load.seconds
		}
		<-time.After(time.Duration(total)*time.Second + lookEvery/2)
		trimming.Stop()
		if err := trimming.Wait(); !errors.Is(err, context.Canceled) && err != nil {
			t.Error(err)
		}
	})
	return at
}

func TestTrimReturnsWhatItRunsReturns(t *testing.T) {
	failure := errors.New("it fails")
	if err := Trim(t.Context(), func(context.Context) error { return failure }); !errors.Is(err, failure) {
		t.Errorf("Trim returned %v, want what it ran returned", err)
	}
}
