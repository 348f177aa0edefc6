package footprint

import (
	"context"
	"errors"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
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
		want  []float64 // seconds of the releases
	}{
		{"a start, then idle", []load{{3, 0.5}, {100, 0.01}}, []float64{3.5, 18.5, 33.5, 48.5, 63.5, 78.5, 93.5}},
		{"a start that hardly works", []load{{1, 0.2}, {100, 0.001}}, []float64{1.5}},
		{"nothing to do for long", []load{{1, 1}, {600, 0}}, []float64{1.5}},
		{"busy for ever", []load{{100, 0.3}}, nil},
		{"a little to do for ever", []load{{20, 0.04}}, []float64{0.5, 4.5, 8.5, 12.5, 16.5}},
		{"bursts", []load{{2, 1}, {18, 0}, {2, 1}, {18, 0}}, []float64{2.5, 22.5}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if at := releasesUnder(t, test.loads...); !slices.Equal(at, test.want) {
				t.Errorf("pages are released after %v seconds, want %v", at, test.want)
			}
		})
	}
}

// releasesUnder returns the seconds after which pages are released under successive loads.
func releasesUnder(t *testing.T, loads ...load) (at []float64) {
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
		trimming.Go("footprint", trimmer{used, func() uint64 { return 0 }, func() {}, func(time.Duration) { at = append(at, time.Since(began).Seconds()) }}.run)
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

func TestAnIdleProgramThatGrowsIsTrimmedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var at []float64
		began, memory := time.Now(), uint64(10<<20)
		used := func() (time.Duration, bool) { return 0, true }
		// It needs 8 MB of its pages again within 2 s of a release, and then grows by 256 KB a second.
		last := began
		resident := func() uint64 {
			since := time.Since(last).Seconds()
			return memory + uint64(min(since, 2)*4)<<20 + uint64(max(0, since-2))<<18
		}
		trimming := lifecycle.New(t.Context())
		trimming.Go("footprint", trimmer{used, resident, func() {}, func(time.Duration) {
			last = time.Now()
			at = append(at, time.Since(began).Seconds())
		}}.run)
		<-time.After(20*time.Second + lookEvery/2)
		trimming.Stop()
		_ = trimming.Wait()
		if want := []float64{0.5, 6.5, 12.5, 18.5}; !slices.Equal(at, want) {
			t.Errorf("pages are released after %v seconds, want %v", at, want)
		}
	})
}

// A burst may pause long enough for a release. What it does afterwards may take little CPU time, and keep much memory.
func TestABurstThatPausesKeepsNoMemory(t *testing.T) {
	for _, test := range []struct {
		name  string
		pause time.Duration // after the release within the burst
		want  []float64     // seconds of the releases
	}{
		{"it works again before the program has settled", time.Second, []float64{0.5, 4}},
		{"it works again at once", 0, []float64{0.5, 3}},
		{"the program had settled", 10 * time.Second, []float64{0.5, 13}},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const work = 2 * time.Second // in which it takes 110 ms of CPU time, which is less than worth
				var at []float64
				began := time.Now()
				worked := func() time.Duration { // the part of the work after the pause that is done
					return max(0, min(work, time.Since(began)-500*time.Millisecond-test.pause))
				}
				memory := uint64(34 << 20)
				used := func() (time.Duration, bool) { return worked() * 55 / 1000, true }
				resident := func() uint64 {
					if worked() > 0 && len(at) < 2 {
						return 31 << 20 // also when the burst has ended
					}
					return memory
				}
				trimming := lifecycle.New(t.Context())
				trimming.Go("footprint", trimmer{used, resident, func() {}, func(time.Duration) {
					at = append(at, time.Since(began).Seconds())
					memory = 16 << 20
				}}.run)
				<-time.After(time.Minute + lookEvery/2)
				trimming.Stop()
				_ = trimming.Wait()
				if !slices.Equal(at, test.want) {
					t.Errorf("memory is released after %v seconds, want %v", at, test.want)
				}
			})
		})
	}
}

// A large program has settled at its size. It is not released again until it works and grows.
func TestAProgramThatStaysLargeIsReleasedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		releases := 0
		began := time.Now()
		used := func() (time.Duration, bool) { return min(time.Since(began), time.Second) / 10, true }
		trimming := lifecycle.New(t.Context())
		trimming.Go("footprint", trimmer{used, func() uint64 { return 400 << 20 }, func() {}, func(time.Duration) { releases++ }}.run)
		<-time.After(time.Minute)
		trimming.Stop()
		_ = trimming.Wait()
		if releases != 1 {
			t.Errorf("memory is released %d times, want once", releases)
		}
	})
}

func TestTrimReturnsWhatItRunsReturns(t *testing.T) {
	failure := errors.New("it fails")
	if err := Trim(t.Context(), func(context.Context) error { return failure }); !errors.Is(err, failure) {
		t.Errorf("Trim returned %v, want what it ran returned", err)
	}
}

// A call of reflect's MethodByName with a computed name makes the linker keep all exported methods of all types. Templates
// do that. The operator would be a quarter larger, in the file and in memory.
func TestTheLinkerCanDropUnusedMethodsOfTheOperator(t *testing.T) {
	build := exec.CommandContext(t.Context(), "go", "build", "-ldflags=-dumpdep", "-o", filepath.Join(t.TempDir(), "operator"), "../bellerophon-operator")
	edges, err := build.CombinedOutput() // The linker writes "caller -> callee <attributes>" to its stderr.
	if err != nil {
		t.Fatalf("build the operator: %v\n%s", err, edges)
	}
	seen := 0
	for edge := range strings.Lines(string(edges)) {
		if !strings.Contains(edge, " -> ") {
			continue
		}
		if seen++; strings.Contains(edge, "<ReflectMethod>") {
			t.Fatalf("this call makes the linker keep all methods: %s", edge)
		}
	}
	if seen == 0 {
		t.Fatalf("the linker printed no calls: %.200s", edges)
	}
}

// The local cluster is for trials and tests. Through a package that shows its start, its code was a part of the operator.
func TestTheOperatorHasNoCodeOfTheLocalCluster(t *testing.T) {
	packages, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "../bellerophon-operator").Output()
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(packages), "bellerophon/controller\n") {
		t.Fatalf("the operator has no controller: %.200s", packages)
	}
	if strings.Contains(string(packages), "localcluster") {
		t.Error("the operator has the package localcluster")
	}
}
