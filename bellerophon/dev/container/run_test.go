package container

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
)

// buffer is a bytes.Buffer for two goroutines.
type buffer struct {
	mu      sync.Mutex
	written bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.written.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.written.String()
}

func lineIn(directory, line string) Command {
	return Command{Slot: "run", Line: line, Directory: directory}
}

func TestRunReturnsTheOutputAndTheExitCode(t *testing.T) {
	eachShell(t, func(t *testing.T, shell []string) {
		root := t.TempDir()
		put(t, root, "file", "x")
		e := newExecs(newLocal(t, shell), root)
		for line, want := range map[string]struct {
			exit   int
			output string
		}{
			"echo one; echo two >&2; echo three": {0, "one\ntwo\nthree\n"},
			"ls; exit 3":                         {3, "file\n"},
			"exit 97":                            {97, ""},
			"exit 127":                           {127, ""},
			"exit 92":                            {92, ""},
			"kill -KILL $$":                      {137, ""},
			"cat; echo end":                      {0, "end\n"},
			`printf '%s|' "$A" "$B" "$PLAIN"`:    {0, "it's \"$HOME\"\n\n|-n|`x`|"},
			"echo \"line's end\"\necho 'two'":    {0, "line's end\ntwo\n"},
		} {
			var output buffer
			command := lineIn(projectDirectory, line)
			command.Env = map[string]string{"A": "it's \"$HOME\"\n\n", "B": "-n", "PLAIN": "`x`"}
			exit, err := e.Run(t.Context(), place, command, &output)
			// Some shells report that a signal has killed the command.
			if err != nil || exit != want.exit || strings.TrimPrefix(output.String(), "Killed\n") != want.output {
				t.Errorf("Run(%q) = %d, %v with %q, want %d with %q", line, exit, err, output.String(), want.exit, want.output)
			}
		}
		var output buffer
		exit, err := e.Run(t.Context(), place, lineIn("/missing", "echo wrong"), &output)
		if err != nil || exit == 0 || !strings.Contains(output.String(), "/missing") || strings.Contains(output.String(), "wrong") {
			t.Errorf("Run in a missing directory = %d, %v with %q", exit, err, output.String())
		}
	})
}

func TestRunRefusesACommandThatCannotBePassedOn(t *testing.T) {
	e := newExecs(newLocal(t, []string{"sh"}), t.TempDir())
	for name, command := range map[string]Command{
		"slot":           {Slot: "../x", Line: "true", Directory: "/"},
		"directory":      {Slot: "run", Line: "true", Directory: "x"},
		"name":           {Slot: "run", Line: "true", Directory: "/", Env: map[string]string{"A=$(x)": "1"}},
		"NUL in a line":  {Slot: "run", Line: "a\x00", Directory: "/"},
		"NUL in a value": {Slot: "run", Line: "a", Directory: "/", Env: map[string]string{"A": "\x00"}},
	} {
		if _, err := e.Run(t.Context(), place, command, io.Discard); err == nil {
			t.Errorf("Run accepts a wrong %s", name)
		}
	}
}

// family is a command that starts children and grandchildren, and writes the IDs of the processes.
const family = `echo $$
(sleep 300 & echo $!; sh -c 'sleep 300 & echo $!; wait' & wait) &
echo ready
wait`

// start runs a command in the background, and waits until it has written the IDs of its processes.
func start(ctx context.Context, t *testing.T, e *Execs, at Place, line string) (pids func() []int, wait func() (int, error)) {
	t.Helper()
	var output buffer
	group := lifecycle.New(ctx)
	var exit int
	var failed error
	group.Go("run", func(ctx context.Context) error {
		exit, failed = e.Run(ctx, at, lineIn("/", line), &output)
		return nil
	})
	pids = func() (found []int) {
		for word := range strings.FieldsSeq(output.String()) {
			if pid, err := strconv.Atoi(word); err == nil {
				found = append(found, pid)
			}
		}
		return found
	}
	wait = func() (int, error) {
		if err := group.Wait(); err != nil {
			t.Error(err)
		}
		return exit, failed
	}
	until(t, "the start of the command", func() bool {
		return strings.Contains(output.String(), "ready") && len(pids()) >= strings.Count(line, "echo $")
	})
	return pids, wait
}

func checkGone(t *testing.T, pids []int) {
	t.Helper()
	for _, pid := range pids {
		if running(pid) {
			t.Errorf("the process %d still lives", pid)
		}
	}
}

func TestTheEndOfTheContextKillsTheCommandAndItsChildren(t *testing.T) {
	eachShell(t, func(t *testing.T, shell []string) {
		e := newExecs(newLocal(t, shell), t.TempDir())
		ctx, cancel := context.WithCancel(t.Context())
		pids, wait := start(ctx, t, e, place, family)
		began := time.Now()
		cancel()
		if _, err := wait(); !errors.Is(err, context.Canceled) {
			t.Errorf("Run() = %v, want context.Canceled", err)
		}
		if took := time.Since(began); took > 3*time.Second {
			t.Errorf("the end took %v", took)
		}
		checkGone(t, pids())
	})
}

func TestACommandThatIgnoresTheSignalIsKilled(t *testing.T) {
	e := newExecs(newLocal(t, []string{"sh"}), t.TempDir())
	ctx, cancel := context.WithCancel(t.Context())
	pids, wait := start(ctx, t, e, place, "trap '' TERM; sleep 300 & echo $!; echo ready; wait; sleep 300")
	cancel()
	if _, err := wait(); !errors.Is(err, context.Canceled) {
		t.Errorf("Run() = %v, want context.Canceled", err)
	}
	checkGone(t, pids())
}

func TestTheOutputOfACommandThatEndsItselfIsKept(t *testing.T) {
	e := newExecs(newLocal(t, []string{"sh"}), t.TempDir())
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var output buffer
	group := lifecycle.New(ctx)
	group.Go("run", func(ctx context.Context) error {
		_, _ = e.Run(ctx, place, lineIn("/", "trap 'echo goodbye; exit' TERM; echo ready; while :; do sleep 0.05; done"), &output)
		return nil
	})
	until(t, "the start", func() bool { return strings.Contains(output.String(), "ready") })
	cancel()
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(output.String(), "goodbye") {
		t.Errorf("the output is %q, want a goodbye", output.String())
	}
}

func TestARestartOfASlotKillsTheEarlierCommand(t *testing.T) {
	eachShell(t, func(t *testing.T, shell []string) {
		root := t.TempDir()
		first := newExecs(newLocal(t, shell), root)
		pids, wait := start(t.Context(), t, first, place, family)
		var other buffer
		if exit, err := first.Run(t.Context(), place, Command{Slot: "build", Line: "echo built", Directory: "/"}, &other); exit != 0 || err != nil {
			t.Errorf("Run() of another slot = %d, %v", exit, err)
		}
		if !running(pids()[0]) {
			t.Error("the command of another slot has ended")
		}
		second := newExecs(newLocal(t, shell), root)
		if exit, err := second.Run(t.Context(), place, lineIn("/", "exit 4"), io.Discard); exit != 4 || err != nil {
			t.Errorf("Run() = %d, %v, want 4", exit, err)
		}
		if exit, err := wait(); exit == 0 || err != nil {
			t.Errorf("the first Run() = %d, %v, want another exit code than 0", exit, err)
		}
		checkGone(t, pids())
	})
}

func TestARestartKillsChildrenThatHaveLostTheirParent(t *testing.T) {
	root := t.TempDir()
	e := newExecs(newLocal(t, []string{"sh"}), root)
	file := filepath.Join(root, "pid")
	if _, err := e.Run(t.Context(), place, lineIn("/", "sleep 300 >/dev/null 2>&1 & echo $! >'"+file+"'"), io.Discard); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || !running(pid) {
		t.Fatalf("the child %q does not run", text)
	}
	if _, err := e.Run(t.Context(), place, lineIn("/", "true"), io.Discard); err != nil {
		t.Fatal(err)
	}
	checkGone(t, []int{pid})
}

func TestAReusedProcessIDIsNotKilled(t *testing.T) {
	eachShell(t, func(t *testing.T, shell []string) {
		root := t.TempDir()
		innocent := newExecs(newLocal(t, shell), filepath.Join(root, "other"))
		pids, wait := start(t.Context(), t, innocent, place, "echo $$; echo ready; sleep 300")
		stat, err := os.ReadFile(filepath.Join(root, "other", StateDirectory, "run.pid"))
		if err != nil {
			t.Fatal(err)
		}
		fields := strings.Fields(string(stat)) // ID, process, start and token
		e := newExecs(newLocal(t, shell), root)
		if err := os.MkdirAll(e.state(), 0o755); err != nil {
			t.Fatal(err)
		}
		for name, line := range map[string]string{
			"another container": fmt.Sprintf("containerd://zero %s %s t", fields[1], fields[2]),
			"another start":     fmt.Sprintf("%s %s 1 t", place.ID, fields[1]),
		} {
			if err := os.WriteFile(filepath.Join(e.state(), "run.pid"), []byte(line+"\n"), 0o644); err != nil {
				t.Fatal(err)
			}
			if exit, err := e.Run(t.Context(), place, lineIn("/", "true"), io.Discard); exit != 0 || err != nil {
				t.Errorf("%s: Run() = %d, %v", name, exit, err)
			}
			if !running(pids()[0]) {
				t.Fatalf("%s: the process was killed", name)
			}
		}
		if exit, err := innocent.Run(t.Context(), place, lineIn("/", "true"), io.Discard); exit != 0 || err != nil {
			t.Errorf("Run() = %d, %v", exit, err)
		}
		if _, err := wait(); err != nil {
			t.Error(err)
		}
		checkGone(t, pids())
	})
}

func TestAMarkIsSetAfterASuccessOnly(t *testing.T) {
	eachShell(t, func(t *testing.T, shell []string) {
		e := newExecs(newLocal(t, shell), t.TempDir())
		for _, step := range []struct{ line, mark, want string }{
			{"false", "m0", ""},
			{"true", "m1\n", "m1\n"},
			{"true", "", ""},
			{"true", "it's m2", "it's m2"},
			{"exit 3", "m3", ""},
		} {
			if _, err := e.Run(t.Context(), place, Command{Slot: "build", Line: step.line, Directory: "/", Mark: step.mark}, io.Discard); err != nil {
				t.Fatal(err)
			}
			mark, err := newExecs(newLocal(t, shell), e.root).Mark(t.Context(), place, "build")
			if err != nil || mark != step.want {
				t.Errorf("after %q with the mark %q, Mark() = %q, %v, want %q", step.line, step.mark, mark, err, step.want)
			}
			if mark, err := e.Mark(t.Context(), place, "other"); mark != "" || err != nil {
				t.Errorf("Mark() of another slot = %q, %v", mark, err)
			}
		}
	})
}

func TestACommandDuringWhichFilesChangeGetsNoMark(t *testing.T) {
	eachShell(t, func(t *testing.T, shell []string) {
		root := t.TempDir()
		e := newExecs(newLocal(t, shell), root)
		first, second := projectOf(file("main.go", "one", 0o644)), projectOf(file("main.go", "two", 0o644))
		if err := bring(t.Context(), e, place, first); err != nil {
			t.Fatal(err)
		}
		fifo := filepath.Join(root, "go-on")
		if err := exec.Command("mkfifo", fifo).Run(); err != nil {
			t.Fatal(err)
		}
		build := func(line string, during func()) string {
			t.Helper()
			group := lifecycle.New(t.Context())
			begun, say := io.Pipe()
			group.Go("build", func(ctx context.Context) error {
				defer say.Close()
				exit, err := e.Run(ctx, place, Command{Slot: "build", Line: line, Directory: "/", Mark: "m"}, say)
				if exit != 0 {
					return fmt.Errorf("the build ends with %d", exit)
				}
				return err
			})
			if during != nil {
				if _, err := io.ReadFull(begun, make([]byte, len("begun"))); err != nil {
					t.Fatal(err)
				}
				during()
				if err := os.WriteFile(fifo, []byte("go on\n"), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			_, _ = io.Copy(io.Discard, begun)
			if err := group.Wait(); err != nil {
				t.Fatal(err)
			}
			mark, err := e.Mark(t.Context(), place, "build")
			if err != nil {
				t.Fatal(err)
			}
			return mark
		}
		change := func() {
			for _, files := range []project{second, first} { // In the end, the files are as at the start.
				if err := bring(t.Context(), e, place, files); err != nil {
					t.Fatal(err)
				}
			}
		}
		line := "echo begun; read -r line <'" + fifo + "'"
		if mark := build(line, func() {}); mark != "m" {
			t.Errorf("Mark() = %q without a sync", mark)
		}
		if mark := build(line, change); mark != "" {
			t.Errorf("Mark() = %q, although files changed during the command", mark)
		}
	})
}

func TestACommandThatWasCutOffDoesNotRun(t *testing.T) {
	root := t.TempDir()
	cut := newLocal(t, []string{"sh"})
	e := newExecs(cut, root)
	target := filepath.Join(root, "ran")
	script, err := io.ReadAll(scriptInput(processScript+runScript, noInput()))
	if err != nil {
		t.Fatal(err)
	}
	for left := len(script) - 50; left < len(script)+500; left += 7 {
		cut.cut = left
		_, err := e.Run(t.Context(), place, lineIn("/", "echo >'"+target+"'"), io.Discard)
		_, missing := os.Stat(target)
		switch {
		case err == nil && missing == nil && left > len(script)+50:
			return // The whole command arrived.
		case err == nil || missing == nil:
			t.Fatalf("a command that was cut off at %d of %d bytes: Run() = %v, it ran: %v", left, len(script), err, missing == nil)
		}
	}
	t.Error("the command never arrived as a whole")
}

// stub is an executor with a function.
type stub func(ctx context.Context, argv []string, stdin io.Reader, stdout, stderr io.Writer) (int, error)

func (s stub) exec(ctx context.Context, _ Place, argv []string, stdin io.Reader, stdout, stderr io.Writer) (int, error) {
	return s(ctx, argv, stdin, stdout, stderr)
}

func TestRunReturnsSoonIfNothingAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newExecs(stub(func(ctx context.Context, _ []string, _ io.Reader, _, _ io.Writer) (int, error) {
			<-ctx.Done()
			return 0, ctx.Err()
		}), "")
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began := time.Now()
		if _, err := e.Run(ctx, place, lineIn("/", "true"), io.Discard); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Run() = %v, want the error of the context", err)
		}
		if took := time.Since(began) - time.Minute; took > 10*time.Second {
			t.Errorf("Run returned %v after the end of the context", took)
		}
	})
}

func TestAnEndWithoutProofIsABrokenConnection(t *testing.T) {
	e := newExecs(stub(func(_ context.Context, _ []string, stdin io.Reader, stdout, _ io.Writer) (int, error) {
		_, _ = io.Copy(io.Discard, stdin)
		_, _ = io.WriteString(stdout, "\n./none\n")
		return 0, nil
	}), "")
	if _, err := e.Held(t.Context(), place); !errors.Is(err, ErrConnection) {
		t.Errorf("Held() = %v, want ErrConnection", err)
	}
	if _, err := e.Mark(t.Context(), place, "run"); !errors.Is(err, ErrConnection) {
		t.Errorf("Mark() = %v, want ErrConnection", err)
	}
	if _, err := e.Run(t.Context(), place, lineIn("/", "true"), io.Discard); !errors.Is(err, ErrConnection) {
		t.Errorf("Run() = %v, want ErrConnection", err)
	}
}

func TestNothingIsWrittenAfterTheReturn(t *testing.T) {
	var late io.Writer
	var lateReader io.Reader
	e := newExecs(stub(func(_ context.Context, _ []string, stdin io.Reader, stdout, _ io.Writer) (int, error) {
		late, lateReader = stdout, stdin
		return 0, io.ErrUnexpectedEOF
	}), "")
	var output bytes.Buffer
	if _, err := e.Run(t.Context(), place, lineIn("/", "true"), &output); !errors.Is(err, ErrConnection) {
		t.Errorf("Run() = %v, want ErrConnection", err)
	}
	if _, err := late.Write([]byte("late")); err == nil || output.Len() > 0 {
		t.Errorf("a late write returns %v and writes %q", err, output.String())
	}
	if _, err := lateReader.Read(make([]byte, 1)); err == nil {
		t.Error("a late read succeeds")
	}
}
