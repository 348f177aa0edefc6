//go:build linux

package affinity_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/bellerophon-io/bellerophon/bench/affinity"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
)

// listOf returns the line of a status file with the processors of a thread or process.
func listOf(t *testing.T, status string) string {
	t.Helper()
	for line := range strings.Lines(status) {
		if list, is := strings.CutPrefix(line, "Cpus_allowed_list:"); is {
			return strings.TrimSpace(list)
		}
	}
	t.Fatalf("there are no processors in %q", status)
	return ""
}

func TestAProcessOfAKeptThreadStaysOnItsProcessorAndTheThreadGoesBack(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before, err := affinity.Allowed()
	if err != nil || len(before) == 0 {
		t.Fatalf("allowed are %v: %v", before, err)
	}
	last := before[len(before)-1]
	restore, err := affinity.Thread([]int{last})
	if err != nil {
		t.Fatal(err)
	}
	child, err := exec.CommandContext(t.Context(), "cat", "/proc/self/status").Output()
	if got, want := listOf(t, string(child)), strconv.Itoa(last); err != nil || got != want {
		t.Errorf("the child runs on %s, want %s: %v", got, want, err)
	}
	if err := restore(); err != nil {
		t.Fatal(err)
	}
	if after, err := affinity.Allowed(); err != nil || !slices.Equal(after, before) {
		t.Errorf("afterwards the thread may run on %v, want %v: %v", after, before, err)
	}
}

func TestAllThreadsOfAProcessAreKeptAndThoseThatTheyStart(t *testing.T) {
	before, err := affinity.Allowed()
	if err != nil {
		t.Fatal(err)
	}
	// Some threads exist before, and some start afterwards.
	threads, end := lifecycle.New(context.Background()), make(chan struct{})
	hold := func() {
		started := make(chan struct{})
		threads.Go("thread", func(context.Context) error {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			close(started)
			<-end
			return nil
		})
		<-started
	}
	for range 5 {
		hold()
	}
	last := before[len(before)-1]
	if err := affinity.Process([]int{last}); err != nil {
		t.Fatal(err)
	}
	for range 5 {
		hold()
	}
	tasks, err := filepath.Glob("/proc/self/task/*/status")
	if err != nil || len(tasks) < 10 {
		t.Errorf("there are %d threads: %v", len(tasks), err)
	}
	for _, task := range tasks {
		status, err := os.ReadFile(task)
		if err != nil {
			continue // The thread has ended.
		}
		if got, want := listOf(t, string(status)), strconv.Itoa(last); got != want {
			t.Errorf("%s may run on %s, want %s", task, got, want)
		}
	}
	close(end)
	if err := threads.Wait(); err != nil {
		t.Error(err)
	}
	if err := affinity.Process(before); err != nil {
		t.Error(err)
	}
}

func TestProcessorsThatTheMachineLacksAreAnError(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if _, err := affinity.Thread(nil); err == nil || !strings.Contains(err.Error(), "keep a thread on the processors") {
		t.Errorf("no processors: %v", err)
	}
}
