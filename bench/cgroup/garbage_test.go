//go:build linux

package cgroup_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/bellerophon/footprint"
)

// wasting is set in a process that makes garbage under footprint.Trim.
const wasting = "BELLEROPHON_TEST_WASTES"

// waste makes 4 GB of garbage in pieces of 64 kB, beside 192 MB that live. GOGC alone lets the heap grow to 384 MB. It
// writes to each byte, because Go's limit is not a hard one: what is allocated while a collection ends comes on top.
func waste(context.Context) error {
	live := make([][]byte, 3<<10)
	for i := range 64 << 10 {
		piece := make([]byte, 64<<10)
		for at := range piece {
			piece[at] = byte(at)
		}
		live[i%len(live)] = piece
	}
	runtime.KeepAlive(live)
	return nil
}

func TestGarbageStaysWithinTheLimitOfAContainer(t *testing.T) {
	if os.Getenv(wasting) != "" {
		if err := footprint.Trim(t.Context(), waste); err != nil {
			t.Fatal(err)
		}
		return
	}
	// The race detector takes memory that Go's limit does not count, so the process is built without it.
	program := filepath.Join(t.TempDir(), "waste")
	if said, err := exec.CommandContext(t.Context(), "go", "test", "-c", "-race=false", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("build the test without the race detector: %v\n%s", err, said)
	}
	for _, test := range []struct {
		limited string // AUTOMEMLIMIT
		killed  bool
	}{{"0.9", false}, {"off", true}} {
		command := exec.CommandContext(t.Context(), program, "-test.run=^"+t.Name()+"$", "-test.count=1")
		command.Env = append(slices.DeleteFunc(os.Environ(), func(variable string) bool {
			return strings.HasPrefix(variable, "GOMEMLIMIT=") || strings.HasPrefix(variable, "GOGC=")
		}), wasting+"=1", "AUTOMEMLIMIT="+test.limited)
		killed, took := run(t, group(t, "memory=320Mi"), command)
		if killed != test.killed || !killed && !command.ProcessState.Success() {
			t.Errorf("with AUTOMEMLIMIT=%s it was killed: %t, want %t; it ended with %v after %v", test.limited, killed, test.killed, command.ProcessState, took.Round(time.Millisecond))
		}
	}
}
