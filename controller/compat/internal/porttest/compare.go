package porttest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/bellerophon-io/bellerophon/internal/localcluster/clustertest"
	"github.com/google/go-cmp/cmp"
)

// outcome is what a runtime cost, and what it left.
type outcome struct {
	requests map[string]int
	memory   string // the largest resident set
	cpu      time.Duration
	elapsed  time.Duration
	state    map[string]string // each object, without what differs from one run to the next
}

// run takes a load through the operator by a runtime, in a process of its own. environment has further variables of it.
func (f *Field) run(by string, load func(), environment ...string) (result outcome) {
	f.T.Helper()
	ctx, cancel := context.WithTimeout(f.T.Context(), 10*time.Minute)
	defer cancel()
	operator := exec.CommandContext(ctx, os.Args[0])
	operator.Env = append(os.Environ(), runtimeVariable+"="+by, namespaceVariable+"="+f.Namespace, "KUBECONFIG="+clustertest.Shared(f.T).Kubeconfig())
	operator.Env = append(operator.Env, environment...)
	var printed, trouble bytes.Buffer
	operator.Stdout, operator.Stderr = &printed, &trouble
	f.Must(operator.Start())
	begun := time.Now()
	load()
	result.elapsed = time.Since(begun)
	result.state = f.state()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", operator.Process.Pid))
	f.Must(err)
	for line := range strings.Lines(string(status)) {
		if peak, is := strings.CutPrefix(line, "VmHWM:"); is {
			result.memory = strings.TrimSpace(peak)
		}
	}
	f.Must(operator.Process.Signal(syscall.SIGTERM))
	if err := operator.Wait(); err != nil {
		f.T.Fatalf("the operator on %s ends with %v\n%s", by, err, trouble.String())
	}
	result.cpu = operator.ProcessState.UserTime() + operator.ProcessState.SystemTime()
	f.Must(json.Unmarshal(printed.Bytes(), &result.requests))
	f.clear()
	return result
}

// Compare runs the same load on both runtimes, one after the other, and fails the test unless both leave equal
// objects. load creates the load and waits for its end. Compare logs what each runtime costs, and returns how many
// objects there are at the end.
func (f *Field) Compare(load func()) (objects int) {
	f.T.Helper()
	results := map[string]outcome{}
	for _, by := range []string{ControllerRuntime, Bellerophon} {
		results[by] = f.run(by, load)
	}
	ours, theirs := results[Bellerophon], results[ControllerRuntime]
	for name, want := range theirs.state {
		if difference := cmp.Diff(want, ours.state[name]); difference != "" {
			f.T.Errorf("%s differs, - on controller-runtime and + on Bellerophon:\n%s", name, difference)
		}
	}
	if len(ours.state) != len(theirs.state) {
		f.T.Errorf("there are %d objects on Bellerophon, and %d on controller-runtime", len(ours.state), len(theirs.state))
	}
	f.T.Logf("%-20s %10s %12s %8s %8s  %s", "runtime", "CPU", "peak memory", "writes", "reads", "all requests")
	for _, by := range []string{ControllerRuntime, Bellerophon} {
		r := results[by]
		f.T.Logf("%-20s %10v %12s %8d %8d  %v in %v", by, r.cpu.Round(time.Millisecond), r.memory, r.requests["write"], r.requests["read"], r.requests, r.elapsed.Round(time.Millisecond))
	}
	return len(theirs.state)
}
