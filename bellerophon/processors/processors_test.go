package processors

import (
	"context"
	"runtime"
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

// changes returns the seconds after which the number of processors changes under successive loads.
// The first change is to all processors, the second to one, and so on.
func changes(t *testing.T, loads ...load) (at []int) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		began, all := time.Now(), false
		taken := func() (cpu time.Duration, known bool) {
			left := time.Since(began)
			for _, load := range loads {
				spent := min(left, time.Duration(load.seconds)*time.Second)
				cpu += time.Duration(load.share * float64(spent))
				left -= spent
			}
			return cpu, true
		}
		governing := lifecycle.New(t.Context())
		governing.Go("processors", governor{taken, func(is bool) {
			if is == all {
				t.Errorf("after %v the governor sets the number that is already set: all %v", time.Since(began), is)
			}
			all = is
			at = append(at, int(time.Since(began)/time.Second))
		}}.run)
		total := 0
		for _, load := range loads {
			total += load.seconds
		}
		<-time.After(time.Duration(total)*time.Second + lookEvery/2)
		governing.Stop()
		if err := governing.Wait(); err != nil {
			t.Error(err)
		}
	})
	return at
}

func TestOneProcessorIsThereWhileItIsEnough(t *testing.T) {
	for _, test := range []struct {
		name  string
		loads []load
		want  []int
	}{
		{"idle", []load{{100, 0.01}}, nil},
		{"nearly used up", []load{{100, 0.75}}, nil},
		{"used up from the start", []load{{100, 1}}, []int{1}},
		{"used up for a while", []load{{10, 0.1}, {5, 1}, {30, 0.1}}, []int{11, 25}},
		{"two used up for a while", []load{{10, 0.1}, {5, 2}, {30, 0.1}}, []int{11, 25}},
		{"a bit too much for one", []load{{10, 1}, {100, 0.6}}, []int{1}},
		{"calm, but never for long enough", []load{{2, 1}, {9, 0.1}, {1, 0.6}, {9, 0.1}, {1, 0.6}, {8, 0.1}}, []int{1}},
		{"used up twice", []load{{2, 1}, {20, 0.1}, {2, 1}, {20, 0.1}}, []int{1, 12, 23, 34}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if at := changes(t, test.loads...); !slices.Equal(at, test.want) {
				t.Errorf("the processors change after %v seconds, want %v", at, test.want)
			}
		})
	}
}

func TestTheEnvironmentsNumberOfProcessorsIsLeftAlone(t *testing.T) {
	before := runtime.GOMAXPROCS(0)
	t.Setenv("GOMAXPROCS", "7")
	if err := Govern(t.Context(), func(context.Context) error {
		if now := runtime.GOMAXPROCS(0); now != before {
			t.Errorf("%d processors instead of %d", now, before)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
}
