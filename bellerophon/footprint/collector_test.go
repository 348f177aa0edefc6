package footprint

import (
	"context"
	"errors"
	"math"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
)

// setting returns the GOGC of this process.
func setting() int {
	sample := []metrics.Sample{{Name: "/gc/gogc:percent"}}
	metrics.Read(sample)
	return int(sample[0].Value.Uint64())
}

func TestGarbageMayTakeMoreThanWhatLivesUnlessTheHeapIsSmallOrLarge(t *testing.T) {
	for _, test := range []struct {
		live    uint64
		percent int
	}{{0, 100}, {smallHeap, 100}, {smallHeap + 1, 300}, {10 << 20, 300}, {12 << 20, 250}, {16 << 20, 200}, {31 << 20, 100}, {32 << 20, 100}, {1 << 30, 100}, {math.MaxUint64, 100}} {
		if got := percentFor(test.live); got != test.percent {
			t.Errorf("GOGC is %d while %d bytes live, want %d", got, test.live, test.percent)
		}
	}
}

func TestACollectionTakesATwentiethOfTheWorkAtMost(t *testing.T) {
	for _, test := range []struct {
		live   uint64
		worked time.Duration
		want   bool
	}{
		{smallHeap, 0, true},
		{smallHeap + 1, worth, false},
		{15 << 20, 250 * time.Millisecond, false},
		{15 << 20, 350 * time.Millisecond, true},
		{500 << 20, 5 * time.Second, false},
		{500 << 20, 11 * time.Second, true},
	} {
		if got := pays(test.live, test.worked); got != test.want {
			t.Errorf("after %v of work, %d live bytes are collected: %t, want %t", test.worked, test.live, got, test.want)
		}
	}
}

func TestAProgramAtRestHasTheUsualSetting(t *testing.T) {
	if setting() != usual {
		t.Fatalf("GOGC is %d at the start, want %d", setting(), usual)
	}
	c := newCollector()
	if c.work(); setting() != usual {
		t.Errorf("with a small heap GOGC is %d at work, want %d", setting(), usual)
	}
	lives := make([]byte, 2*smallHeap)
	runtime.GC() // The live heap is what the last collection marked.
	c.work()
	runtime.KeepAlive(lives)
	if got := setting(); got <= usual {
		t.Errorf("GOGC is %d at work, want more than %d", got, usual)
	}
	if c.rest(time.Second); setting() != usual {
		t.Errorf("GOGC is %d at rest, want %d", setting(), usual)
	}
}

func TestASettingOfTheEnvironmentStays(t *testing.T) {
	t.Setenv("GOGC", "50")
	defer debug.SetGCPercent(debug.SetGCPercent(50))
	c := newCollector()
	c.work()
	if got := setting(); got != 50 {
		t.Errorf("GOGC is %d at work, want 50", got)
	}
	if c.rest(time.Second); setting() != 50 {
		t.Errorf("GOGC is %d at rest, want 50", setting())
	}
}

func TestGarbageMayTakeMoreOnlyWhileTheProgramWorks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		used := func() (time.Duration, bool) { // It works for 3 s.
			return min(time.Since(began), 3*time.Second) / 2, true
		}
		var works, released []time.Duration
		trimming := lifecycle.New(t.Context())
		trimming.Go("footprint", trimmer{used, func() uint64 { return 0 },
			func() { works = append(works, time.Since(began)) },
			func(worked time.Duration) { released = append(released, worked) }}.run)
		<-time.After(10*time.Second + lookEvery/2)
		trimming.Stop()
		if err := trimming.Wait(); !errors.Is(err, context.Canceled) && err != nil {
			t.Error(err)
		}
		if last := 3 * time.Second; len(works) != int(last/lookEvery) || works[len(works)-1] != last {
			t.Errorf("garbage may take more after %v, want each %v until %v", works, lookEvery, last)
		}
		// The first release counts worth beside the work, so that it takes place after any start.
		if len(released) != 1 || released[0] != 1500*time.Millisecond+worth {
			t.Errorf("released after %v of work, want once after 1.5 s and %v", released, worth)
		}
	})
}

func TestAMemoryLimitOfTheEnvironmentStays(t *testing.T) {
	t.Setenv("GOMEMLIMIT", "1GiB")
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(1 << 30))
	if limitMemory(); debug.SetMemoryLimit(-1) != 1<<30 {
		t.Errorf("the limit is %d bytes, want %d", debug.SetMemoryLimit(-1), 1<<30)
	}
}
