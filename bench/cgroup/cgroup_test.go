//go:build linux

package cgroup_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/bench/cgroup"
)

func parse(t *testing.T, text string) cgroup.Limits {
	t.Helper()
	limits, err := cgroup.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return limits
}

// group returns a group with limits. It skips the test where groups are not allowed.
func group(t *testing.T, text string) *cgroup.Group {
	t.Helper()
	limits := parse(t, text)
	if err := cgroup.Check(limits); err != nil {
		t.Skip(err)
	}
	g, err := cgroup.New(limits)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// run runs a command in a group and removes the group.
func run(t *testing.T, g *cgroup.Group, command *exec.Cmd) (killed bool, took time.Duration) {
	t.Helper()
	runtime.LockOSThread() // See Start.
	defer runtime.UnlockOSThread()
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	began := time.Now()
	if err := g.Start(command); err != nil {
		t.Fatal(err)
	}
	_ = command.Wait() // ProcessState holds the result.
	took = time.Since(began)
	killed, err := g.Killed()
	if err != nil {
		t.Error(err)
	}
	if err := g.Close(); err != nil {
		t.Error(err)
	}
	return killed, took
}

func TestAProcessThatNeedsMoreMemoryIsKilledAndTheGroupSaysSo(t *testing.T) {
	// tail keeps the last line of its input, and this line has no end.
	command := exec.CommandContext(t.Context(), "tail", "/dev/zero")
	killed, _ := run(t, group(t, "memory=32Mi"), command)
	if status := command.ProcessState.String(); !killed || status != "signal: killed" {
		t.Errorf("the group says killed: %v, and the process ended with %q; want that the kernel killed it", killed, status)
	}
	command = exec.CommandContext(t.Context(), "true")
	if killed, _ := run(t, group(t, "memory=32Mi"), command); killed || !command.ProcessState.Success() {
		t.Errorf("a small process: the group says killed: %v, and it ended with %v", killed, command.ProcessState)
	}
}

func TestABusyProcessGetsItsShareOfCPUAndNotMore(t *testing.T) {
	const share = 0.1
	command := exec.CommandContext(t.Context(), "timeout", "3", "sh", "-c", "while :; do :; done")
	_, took := run(t, group(t, fmt.Sprint("cpu=", share)), command)
	used := (command.ProcessState.UserTime() + command.ProcessState.SystemTime()).Seconds() / took.Seconds()
	// The kernel may overrun a period by a tick. On a busy machine a process gets less than its share.
	if used > 1.5*share || used < share/50 {
		t.Errorf("a busy process used %.3f of a processor in %v, want %v", used, took, share)
	}
}

func TestAProgramStartsInItsGroupAndTheThreadThatStartedItGoesBack(t *testing.T) {
	runtime.LockOSThread() // The test looks at one thread.
	defer runtime.UnlockOSThread()
	g := group(t, "cpu=0.5,memory=32Mi")
	before, err := os.ReadFile("/proc/thread-self/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	command, said := exec.CommandContext(t.Context(), "cat", "/proc/self/cgroup"), new(strings.Builder)
	command.Stdout = said
	run(t, g, command)
	if after, err := os.ReadFile("/proc/thread-self/cgroup"); err != nil || string(after) != string(before) {
		t.Errorf("afterwards the thread is in\n%s\nwant\n%s: %v", after, before, err)
	}
	names := 0
	for line := range strings.Lines(said.String()) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if !strings.Contains(fields[2], "bellerophon-") {
			continue
		}
		names++
		folder := filepath.Join("/sys/fs/cgroup", fields[1], fields[2]) // Version 2 has no fields[1].
		if _, err := os.Stat(folder); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is left: %v", folder, err)
		}
	}
	if names == 0 {
		t.Errorf("the program was in\n%s\nwant the new group", said)
	}
}

func TestAGroupWithoutLimitsIsRefused(t *testing.T) {
	if err := cgroup.Check(cgroup.Limits{}); err == nil || !strings.Contains(err.Error(), "there is no limit") {
		t.Errorf("Check() = %v, want an error", err)
	}
}

func TestLimitsAreReadAndWritten(t *testing.T) {
	for text, want := range map[string]string{
		"cpu=1,memory=256Mi": "1 CPU and 256Mi", "memory=1Gi": "1Gi", "cpu=500m": "500m CPU", "memory=16Mi,cpu=0.01": "10m CPU and 16Mi",
	} {
		if got := parse(t, text).String(); got != want {
			t.Errorf("Parse(%q) is %q, want %q", text, got, want)
		}
	}
	processors := fmt.Sprint("allowed is 0.01 to ", runtime.NumCPU())
	for text, want := range map[string]string{
		"": "allowed are cpu and memory", "disk=1": `no limit "disk"`, "cpu": processors, "cpu=0.001": processors, "cpu=100000": processors,
		"cpu=-1": processors, "memory=1Mi": "from 16Mi", "memory=much": "from 16Mi", "cpu=1,cpu=1": "cpu is given twice", "cpu=1,": "allowed are cpu and memory",
	} {
		if limits, err := cgroup.Parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Parse(%q) = %v, %v; want an error with %q", text, limits, err, want)
		}
	}
}
