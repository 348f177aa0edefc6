package controller_test

import (
	"flag"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

var clockJumps = flag.Int("clock-jumps", 0, "number of random schedules that check the levels while the system clock jumps; the build takes some minutes")

// jumpClock sets how far the system clock is off the monotonic clock. It does nothing except in the build of
// TestTheLevelsDoNotDependOnTheSystemClock.
func jumpClock(time.Duration) {}

// clockOffsets are the offsets of the system clock after the steps of a schedule, in turn.
var clockOffsets = [...]time.Duration{0, time.Hour, -2 * time.Hour, 0, 3 * time.Second, -400 * 24 * time.Hour, 90 * time.Second, -time.Minute}

// jumpingClock makes time.Now carry both clocks in virtual time, and lets the system clock jump. In a synctest
// bubble, time.Now has no reading of the monotonic clock otherwise.
func jumpingClock(t *testing.T) []edit {
	t.Helper()
	root, err := exec.CommandContext(t.Context(), "go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	return []edit{
		{
			filepath.Join(strings.TrimSpace(string(root)), "src", "time", "time.go"),
			"\tsec, nsec, mono := runtimeNow()\n\tif mono == 0 {\n\t\treturn Time{uint64(nsec), sec + unixToInternal, Local}",
			"\tsec, nsec, mono := runtimeNow()\n\tsec += clockOffset\n\tif runtimeIsBubbled() {\n\t\tmono = runtimeNano()\n\t}\n" +
				"\tif mono == 0 {\n\t\treturn Time{uint64(nsec), sec + unixToInternal, Local}",
		},
		{
			filepath.Join(strings.TrimSpace(string(root)), "src", "time", "sleep.go"),
			"func Sleep(d Duration)",
			"func Sleep(d Duration)\n\nvar clockOffset int64 // seconds\n\nfunc SetClockOffset(offset Duration) { clockOffset = int64(offset / Second) }",
		},
		{"controller/clock_jumps_test.go", "func jumpClock(time.Duration) " + "{}", "func jumpClock(offset time.Duration) { time.SetClockOffset(offset) }"},
	}
}

func TestTheLevelsDoNotDependOnTheSystemClock(t *testing.T) {
	if *clockJumps == 0 {
		t.Skip("all packages, the standard library too, have to be built anew for a system clock that jumps; -args -clock-jumps=20000 does it")
	}
	clock := lie{name: "the system clock jumps", edits: jumpingClock(t)}
	if caught, output := clock.tellAmong(t, *clockJumps, time.Hour); len(caught) > 0 {
		t.Errorf("%s fail while the system clock jumps:\n%s", caught, output)
	}
	clock.edits = append(clock.edits, edit{"cache/scope.go", "s.confirmed = at\n", "s.confirmed = at.Round(0)\n"})
	caught, output := clock.tell(t)
	if len(caught) == 0 {
		t.Errorf("no test finds that a bound in time is measured by the system clock:\n%s", output)
	}
	t.Logf("a bound that is measured by the system clock is found by %s", strings.Join(caught, ", "))
}
