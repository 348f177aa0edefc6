package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"go.uber.org/goleak"
)

// script returns a runner and a hook that runs a script, and the log of the runner.
func script(t *testing.T, text string) (*runner, *Hook, *bytes.Buffer) {
	t.Helper()
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, before) })
	path := filepath.Join(t.TempDir(), "hook.sh")
	if err := os.WriteFile(path, []byte("#!/usr/bin/env bash\n"+text), 0o700); err != nil {
		t.Fatal(err)
	}
	log := &bytes.Buffer{}
	return &runner{
		logger: slog.New(slog.NewTextHandler(log, nil)), timeout: time.Minute, grace: 200 * time.Millisecond,
		metrics: newHookMetrics(),
		apply: func(_ context.Context, _ *Hook, patches []byte) error {
			_, err := fmt.Fprintf(log, "patches: %s", patches)
			return err
		},
	}, &Hook{Name: "hook.sh", Path: path}, log
}

func TestAHookReadsItsContextAndItsOutputIsLoggedLineByLine(t *testing.T) {
	runs, hook, log := script(t, `
cat "$BINDING_CONTEXT_PATH"; echo
echo oops >&2
printf 'no end'
[[ -f $METRICS_PATH && $PWD == "$(dirname "$0")" ]] || exit 4
printf '{"operation": "x"}' > "$KUBERNETES_PATCH_PATH"
`)
	if err := runs.run(t.Context(), hook, []map[string]any{{"binding": "onStartup"}}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`msg="[{\"binding\":\"onStartup\"}]" hook=hook.sh output=stdout`,
		"msg=oops hook=hook.sh output=stderr",
		`msg="no end" hook=hook.sh output=stdout`,
		`patches: {"operation": "x"}`,
	} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log lacks %s:\n%s", want, log)
		}
	}
}

func TestAHookThatFailsPatchesNothing(t *testing.T) {
	runs, hook, log := script(t, `echo x > "$KUBERNETES_PATCH_PATH"; exit 3`)
	if err := runs.run(t.Context(), hook, nil); err == nil || err.Error() != "exit status 3" {
		t.Errorf("the error is %v", err)
	}
	if strings.Contains(log.String(), "patches") {
		t.Errorf("the patches were applied:\n%s", log)
	}
}

func TestAHookGetsNoVariableThatIsNotPassed(t *testing.T) {
	t.Setenv("CANARY_TOKEN", "secret")
	t.Setenv("CANARY_WANTED", "wanted")
	t.Setenv("LC_CANARY", "locale")
	runs, hook, log := script(t, `env`)
	runs.env = []string{"CANARY_WANTED"}
	if err := runs.run(t.Context(), hook, nil); err != nil {
		t.Fatal(err)
	}
	if text := log.String(); strings.Contains(text, "CANARY_TOKEN") || !strings.Contains(text, "CANARY_WANTED=wanted") || !strings.Contains(text, "LC_CANARY") || !strings.Contains(text, "PATH=") {
		t.Errorf("the environment is\n%s", text)
	}
}

// watchProcesses makes a FIFO named alive beside a hook. The first function waits until a process of the hook has
// written a line to it. The second waits until all processes that hold it open are gone.
func watchProcesses(t *testing.T, hook *Hook) (waitUntilOneRuns, waitUntilAllAreGone func()) {
	t.Helper()
	name := filepath.Join(filepath.Dir(hook.Path), "alive")
	if err := syscall.Mkfifo(name, 0o600); err != nil {
		t.Fatal(err)
	}
	in, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = in.Close() })
	holder, err := os.OpenFile(name, os.O_WRONLY, 0) // Without a writer, a read ends at once.
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = holder.Close() })
	if err := in.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	return func() {
			t.Helper()
			if _, err := in.Read(make([]byte, 1)); err != nil {
				t.Errorf("no process of the hook runs: %v", err)
			}
		}, func() {
			t.Helper()
			_ = holder.Close()
			if _, err := io.ReadAll(in); err != nil {
				t.Errorf("a process of the hook still runs: %v", err)
			}
		}
}

func TestAHookThatHangsIsStoppedWithAllItsProcesses(t *testing.T) {
	runs, hook, _ := script(t, `
trap '' TERM
(trap '' TERM; exec 9> "$(dirname "$0")/alive"; echo >&9; while :; do sleep 60; done) &
while :; do sleep 60; done
`)
	waitUntilOneRuns, waitUntilAllAreGone := watchProcesses(t, hook)
	group := lifecycle.New(t.Context())
	var err error
	group.Go("hook", func(ctx context.Context) error {
		err = runs.run(ctx, hook, nil)
		return nil
	})
	waitUntilOneRuns()
	group.Stop()
	_ = group.Wait() // The function returns nil.
	waitUntilAllAreGone()
	if err == nil || !strings.Contains(err.Error(), "it was stopped") {
		t.Errorf("the error is %v", err)
	}
}

func TestARunThatTakesTooLongIsStopped(t *testing.T) {
	runs, hook, _ := script(t, "sleep 600")
	runs.timeout = 200 * time.Millisecond
	if err := runs.run(t.Context(), hook, nil); err == nil || !strings.Contains(err.Error(), "it took more than 200ms") {
		t.Errorf("the error is %v", err)
	}
}

func TestAProcessThatAHookLeavesRunningIsKilled(t *testing.T) {
	runs, hook, log := script(t, `
mkfifo ready
(exec 9> "$(dirname "$0")/alive"; echo >&9; echo > ready; exec sleep 600) &
read < ready
`)
	waitUntilOneRuns, waitUntilAllAreGone := watchProcesses(t, hook)
	if err := runs.run(t.Context(), hook, nil); err != nil {
		t.Fatal(err)
	}
	waitUntilOneRuns()
	waitUntilAllAreGone()
	if !strings.Contains(log.String(), "left processes running") || !strings.Contains(log.String(), "patches") {
		t.Errorf("the log is\n%s", log)
	}
}

func TestTheFilesOfARunAreRemoved(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	runs, hook, _ := script(t, `stat -c %a "$BINDING_CONTEXT_PATH" "$(dirname "$BINDING_CONTEXT_PATH")" | tr '\n' ' ' | grep -qx '600 700 '`)
	if err := runs.run(t.Context(), hook, nil); err != nil {
		t.Errorf("others may read the files: %v", err)
	}
	if left, err := os.ReadDir(os.TempDir()); err != nil || len(left) > 0 {
		t.Errorf("%v remain: %v", left, err)
	}
}

func TestALongLineIsSplit(t *testing.T) {
	var got []int
	made := &lines{emit: func(line string) { got = append(got, len(line)) }}
	for _, part := range []string{"ab", "c\n\nd", strings.Repeat("x", 2*longestLine), "\r\n", "end"} {
		if _, err := made.Write([]byte(part)); err != nil {
			t.Fatal(err)
		}
	}
	made.flush()
	if want := fmt.Sprint([]int{3, 0, longestLine, longestLine, 1, 3}); fmt.Sprint(got) != want {
		t.Errorf("the lines have the lengths %v, want %v", got, want)
	}
}
