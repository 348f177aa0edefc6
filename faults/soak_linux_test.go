package faults

import (
	"context"
	"math"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// soaked returns samples of each 10 s of a soak, with memory by a function of the time in minutes.
func soaked(duration time.Duration, memory func(minute float64) float64) (samples []sample) {
	for at := time.Duration(0); at <= duration; at += 10 * time.Second {
		samples = append(samples, sample{at: at, resident: memory(at.Minutes()), anonymous: 1e6 * at.Hours()})
	}
	return samples
}

func TestTheWarmUpDoesNotCountAndTheEventCacheIsNoSlope(t *testing.T) {
	for name, test := range map[string]struct {
		memory      func(minute float64) float64
		least, most float64 // of the slope, in bytes an hour
		leastLevel  float64
		met         bool
	}{
		"flat after the warm-up": {func(minute float64) float64 { return 40e6 + 1e6*min(minute, 17) }, -1, 1, 57e6, true},
		"a saw of the cache":     {func(minute float64) float64 { return 40e6 + 1e6*math.Mod(minute, 6) }, -1e5, 1e5, 42e6, true},
		"a leak":                 {func(minute float64) float64 { return 40e6 + 0.2e6*minute }, 11.9e6, 12.1e6, 40e6, false},
		"a leak with a saw":      {func(minute float64) float64 { return 40e6 + 0.1e6*minute + 1e6*math.Mod(minute, 6) }, 5.9e6, 6.1e6, 40e6, false},
	} {
		level, resident, anonymous := fit(soaked(time.Hour, test.memory))
		if resident.PerHour < test.least || resident.PerHour > test.most || level < test.leastLevel {
			t.Errorf("%s: the slope is %+v at a level of %v, want %v to %v", name, resident, level, test.least, test.most)
		}
		if math.Abs(anonymous.PerHour-1e6) > 1e3 {
			t.Errorf("%s: the slope of the anonymous part is %+v, want 1e6", name, anonymous)
		}
		growth := Growth{Level: level, Resident: resident}
		if met := growth.Goal().Met; met != test.met {
			t.Errorf("%s: met is %v", name, met)
		}
	}
}

func TestASlopeWhoseIntervalReachesAboveTheTargetMissesTheGoal(t *testing.T) {
	growth := Growth{Subject: "s", Runs: 3, Over: time.Hour, First: 40e6, Level: 50e6}
	for slope, want := range map[Slope]string{
		{}: "\tmet\n", {-9e6, 9e6}: "\tmet\n", {1.5e6, 1e6}: "\tmet\n", {1.5e6, 1.1e6}: "\tmissed\n", {2.6e6, 0}: "\tmissed\n", {0, math.Inf(1)}: "\tmissed\n",
	} {
		growth.Resident = slope
		if line := growth.Goal().Line(); !strings.HasSuffix(line, want) || !strings.Contains(line, "of 50.0 MB") || !strings.Contains(line, "40.0 MB after the first run") {
			t.Errorf("%+v: %q, want %q", slope, line, want)
		}
	}
}

func TestASoakThatIsTooShortForASlopeIsRefused(t *testing.T) {
	step := Step{Name: "wait", Do: func(context.Context, *User) error { return nil }, Done: func(State) error { return nil }}
	subject := Subject{
		Name: "s", Command: func(string) *exec.Cmd { return nil }, Kinds: []schema.GroupVersionResource{{Version: "v1", Resource: "configmaps"}},
		Workload: []Step{step, step},
	}
	for _, duration := range []time.Duration{-time.Hour, 0, 12 * time.Minute, shortestSoak - 1} {
		if _, err := Soak(t.Context(), nil, subject, Options{}, duration); err == nil || !strings.Contains(err.Error(), "allowed is 36m0s and above") {
			t.Errorf("a soak of %v: %v", duration, err)
		}
	}
}

func TestTheMemoryOfAProcessIsRead(t *testing.T) {
	taken, err := memoryOf(os.Getpid())
	if err != nil || taken.resident < 1e6 || taken.resident > 1e10 || taken.anonymous <= 0 || taken.anonymous >= taken.resident {
		t.Errorf("this process has %+v, %v", taken, err)
	}
	if _, err := memoryOf(-1); err == nil {
		t.Error("a process that does not exist has memory")
	}
}
