//go:build linux

package cgroup_test

import (
	"context"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/bellerophon/footprint"
)

// wasting is set in a process that makes garbage under footprint.Trim.
const wasting = "BELLEROPHON_TEST_WASTES"

// waste makes 4 GB of garbage in pieces of 64 kB, beside 48 MB that live. GOGC alone lets the heap grow to 96 MB.
func waste(context.Context) error {
	live := make([][]byte, 768)
	for i := range 64 << 10 {
		piece := make([]byte, 64<<10)
		for at := 0; at < len(piece); at += os.Getpagesize() {
			piece[at] = 1
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
	for _, test := range []struct {
		limited string // AUTOMEMLIMIT
		killed  bool
	}{{"0.9", false}, {"off", true}} {
		command := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.count=1")
		command.Env = append(slices.DeleteFunc(os.Environ(), func(variable string) bool {
			return strings.HasPrefix(variable, "GOMEMLIMIT=") || strings.HasPrefix(variable, "GOGC=")
		}), wasting+"=1", "AUTOMEMLIMIT="+test.limited)
		killed, took := run(t, group(t, "memory=76Mi"), command)
		if killed != test.killed || !killed && !command.ProcessState.Success() {
			t.Errorf("with AUTOMEMLIMIT=%s it was killed: %t, want %t; it ended with %v after %v", test.limited, killed, test.killed, command.ProcessState, took.Round(time.Millisecond))
		}
	}
}
