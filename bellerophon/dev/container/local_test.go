package container

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/bellerophon/dev/worktree"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"go.uber.org/goleak"
	"pgregory.net/rapid"
)

func TestMain(m *testing.M) {
	// client-go's goroutine for pings ends with the next ping after the end of a connection.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("k8s.io/client-go/tools/remotecommand.(*heartbeat).start"))
}

const projectDirectory = "/projects/demo"

// local runs the programs on this machine, each in a session of its own, as a container runtime does.
type local struct {
	shell []string // in place of sh
	cut   int      // stdin ends after so many bytes; -1 for all
	group *lifecycle.Group

	mu      sync.Mutex
	started []int
	onStart func(pid int)
}

type cutReader struct {
	from io.Reader
	left int
}

func (c *cutReader) Read(p []byte) (int, error) {
	if c.left <= 0 {
		return 0, io.EOF
	}
	n, err := c.from.Read(p[:min(len(p), c.left)])
	c.left -= n
	return n, err
}

func (l *local) exec(ctx context.Context, _ Place, argv []string, stdin io.Reader, stdout, stderr io.Writer) (int, error) {
	if l.cut >= 0 {
		stdin = &cutReader{stdin, l.cut}
	}
	argv = append(append([]string{}, l.shell...), argv[1:]...)
	command := exec.Command(argv[0], argv[1:]...)
	command.Stdin, command.Stdout, command.Stderr = stdin, stdout, stderr
	command.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	command.WaitDelay = 10 * time.Second
	if err := command.Start(); err != nil {
		return 0, err
	}
	l.mu.Lock()
	l.started = append(l.started, command.Process.Pid)
	l.mu.Unlock()
	if l.onStart != nil {
		l.onStart(command.Process.Pid)
	}
	ended := make(chan error, 1)
	l.group.Go("wait", func(context.Context) error {
		ended <- command.Wait()
		return nil
	})
	select {
	case err := <-ended:
		var exited *exec.ExitError
		if errors.Is(err, io.ErrClosedPipe) || errors.Is(err, syscall.EPIPE) {
			err = nil
		}
		if errors.As(err, &exited) {
			if exited.ExitCode() < 0 {
				return 137, nil
			}
			return exited.ExitCode(), nil
		}
		return 0, err
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

// shells returns the shells of this machine that the scripts must run in.
func shells(t testing.TB) map[string][]string {
	found := map[string][]string{}
	for name, argv := range map[string][]string{"dash": {"dash"}, "bash": {"bash", "--posix"}, "busybox": {"busybox", "sh"}, "sh": {"sh"}} {
		if _, err := exec.LookPath(argv[0]); err == nil {
			found[name] = argv
		}
	}
	if len(found) == 0 {
		t.Fatal("there is no shell")
	}
	return found
}

// eachShell runs a test in each shell.
func eachShell(t *testing.T, test func(t *testing.T, shell []string)) {
	for name, shell := range shells(t) {
		t.Run(name, func(t *testing.T) { test(t, shell) })
	}
}

// newLocal returns an executor. The processes that it has started end with the test.
func newLocal(t testing.TB, shell []string) *local {
	made := &local{shell: shell, cut: -1, group: lifecycle.New(context.Background())}
	t.Cleanup(func() {
		made.killAll()
		if err := made.group.Wait(); err != nil {
			t.Error(err)
		}
	})
	return made
}

func (l *local) killAll() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, pid := range l.started {
		_ = syscall.Kill(-pid, syscall.SIGKILL)
	}
	l.started = nil
}

func placeOf(id string) Place {
	return Place{Namespace: "team", Pod: "demo-1", PodUID: "u1", Container: "app", ID: id, Project: projectDirectory}
}

var place = placeOf("containerd://one")

// project is a tree with its contents.
type project map[string]worktree.Content

func (p project) tree() worktree.Tree {
	tree := worktree.Tree{}
	for name, content := range p {
		tree[name] = content.File
	}
	return tree
}

func (p project) contents(names []string) []worktree.Content {
	var contents []worktree.Content
	for _, name := range names {
		contents = append(contents, p[name])
	}
	return contents
}

func file(name, data string, mode fs.FileMode) worktree.Content {
	return worktree.Content{Path: name, Data: []byte(data),
		File: worktree.File{Mode: mode, Size: int64(len(data)), Sum: sum(data)}}
}

func link(name, target string) worktree.Content {
	return worktree.Content{Path: name, File: worktree.File{Mode: fs.ModeSymlink | 0o777, Link: target}}
}

func projectOf(contents ...worktree.Content) project {
	made := project{}
	for _, content := range contents {
		made[content.Path] = content
	}
	return made
}

// bring makes the container's files equal to the project's, as a caller does.
func bring(ctx context.Context, e *Execs, at Place, want project) error {
	has, err := e.Held(ctx, at)
	if err != nil {
		return err
	}
	change := worktree.Difference(has, want.tree())
	return e.Sync(ctx, at, change, want.contents(change.Send), want.tree())
}

// onDisk reads a project's directory.
func onDisk(t rapid.TB, root string) worktree.Tree {
	t.Helper()
	base := filepath.Join(root, projectDirectory)
	tree := worktree.Tree{}
	err := filepath.WalkDir(base, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(base, name)
		if err != nil {
			return err
		}
		if info.Mode()&fs.ModeSymlink != 0 {
			target, err := os.Readlink(name)
			tree[relative] = worktree.File{Mode: fs.ModeSymlink | 0o777, Link: target}
			return err
		}
		data, err := os.ReadFile(name)
		tree[relative] = worktree.File{Mode: info.Mode(), Size: int64(len(data)), Sum: sum(string(data))}
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return tree
}

// compare reports how a directory differs from a tree.
func compare(t rapid.TB, root string, want worktree.Tree) {
	t.Helper()
	has := onDisk(t, root)
	var wrong []string
	for name, file := range want {
		if has[name] != file {
			wrong = append(wrong, name+": it is "+describe(has, name)+", want "+describe(want, name))
		}
	}
	for name := range has {
		if _, is := want[name]; !is {
			wrong = append(wrong, name+": it should not exist")
		}
	}
	if wrong != nil {
		t.Fatalf("the files differ:\n%s", strings.Join(wrong, "\n"))
	}
}
