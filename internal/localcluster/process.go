package localcluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/internal/subprocess"
)

// errAddressInUse is the cause when a child exits because another process has its port.
var errAddressInUse = errors.New("a port was taken by another process")

// stopGrace is the time between SIGTERM and SIGKILL when a child is stopped. Its data are deleted
// right after, so nothing is lost by killing it.
const stopGrace = 3 * time.Second

// family is the set of child processes of one cluster. No child outlives stop.
type family struct {
	directory string   // the directory of the logs, and the working directory of the children
	env       []string // the complete environment of the children

	group *lifecycle.Group
	ctx   context.Context // cancelled when the first child exits by itself, with its error as the cause
	fail  context.CancelCauseFunc

	node    *namespaces // of a real node, or nil
	forward *forward    // to the API server in the network of a real node, or nil

	mu      sync.Mutex
	members []*child // in start order
}

// child is one process of a family.
type child struct {
	name     string
	command  *exec.Cmd
	stopping atomic.Bool
	ended    chan struct{}
}

func newFamily(directory string, env []string) *family {
	f := &family{directory: directory, env: env, group: lifecycle.New(context.Background())}
	f.ctx, f.fail = context.WithCancelCause(context.Background())
	return f
}

// start runs a binary and writes its output to a log file named after it. If there is a real node, the
// binary runs in the network of the node.
func (f *family) start(path string, arguments ...string) error {
	_, err := f.launch(filepath.Base(path), exec.Command(path, arguments...), func(start func() error) error {
		if f.node == nil {
			return start()
		}
		return f.node.run(false, start)
	})
	return err
}

// launch starts a command as a member. The function start runs in a goroutine that lasts as long as
// the command, and calls the function that it gets, which starts the command.
func (f *family) launch(name string, command *exec.Cmd, start func(func() error) error) (*child, error) {
	log, err := os.OpenFile(f.logFile(name), os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the log of %s: %w", name, err)
	}
	c := &child{name: name, command: command, ended: make(chan struct{})}
	c.command.Dir = f.directory
	c.command.Env = f.env
	c.command.Stdout = log
	c.command.Stderr = log
	if c.command.SysProcAttr == nil {
		c.command.SysProcAttr = subprocess.Attributes()
	}

	started := make(chan error, 1)
	f.spawn(name, func() {
		// The kernel kills the child when the thread that forked it ends (see subprocess.Attributes),
		// so this thread has to live as long as the child.
		defer close(c.ended)
		defer log.Close()

		err := start(c.command.Start)
		started <- err
		if err != nil {
			return
		}
		err = c.command.Wait()
		if !c.stopping.Load() {
			f.fail(f.exitError(name, err))
		}
	})
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", command.Path, err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.members = append(f.members, c)
	return c, nil
}

// spawn runs a function on a thread of its own, which ends with it. So the function may change the
// thread. The main thread of a process never ends, and the whole process would appear in the namespaces
// that it entered. A function that comes there is passed to another thread.
func (f *family) spawn(name string, run func()) {
	f.group.Go(name, func(context.Context) error {
		runtime.LockOSThread() // For good, as Go then ends the thread.
		if !onMainThread() {
			run()
			return nil
		}
		defer runtime.UnlockOSThread()
		done := make(chan struct{})
		f.group.Go(name, func(context.Context) error { // While the main thread is locked, it runs on another one.
			defer close(done)
			runtime.LockOSThread()
			run()
			return nil
		})
		<-done
		return nil
	})
}

// all returns the members in start order.
func (f *family) all() []*child {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.members)
}

// find returns the member that runs a program, or nil.
func (f *family) find(name string) *child {
	for _, c := range f.all() {
		if c.name == name {
			return c
		}
	}
	return nil
}

// kill ends the members at once, in reverse start order. The family stays usable, so that other
// members can replace them.
func (f *family) kill() {
	members := f.all()
	for _, c := range slices.Backward(members) {
		c.stopping.Store(true)
		_ = c.command.Process.Kill()
		<-c.ended
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.members = nil
}

// restart kills a member and starts its program again, in the place of the member.
func (f *family) restart(c *child) error {
	c.stopping.Store(true)
	_ = c.command.Process.Kill()
	<-c.ended
	if err := f.start(c.command.Path, c.command.Args[1:]...); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	last := len(f.members) - 1
	f.members[slices.Index(f.members, c)] = f.members[last]
	f.members = f.members[:last]
	return nil
}

// exitError returns an error that says how a child exited that was not stopped.
func (f *family) exitError(name string, err error) error {
	ended := "exit status 0"
	if err != nil {
		ended = err.Error()
	}
	tail := lastLines(f.logFile(name), 15)
	if strings.Contains(tail, "address already in use") {
		return fmt.Errorf("%s ended by itself (%s): %w; its last lines:\n%s", name, ended, errAddressInUse, tail)
	}
	return fmt.Errorf("%s ended by itself (%s); its last lines:\n%s", name, ended, tail)
}

func (f *family) logFile(name string) string { return filepath.Join(f.directory, name+".log") }

// stop ends the children in reverse start order, so that no child loses a server that it uses. It
// returns when the last child has exited.
func (f *family) stop() {
	members := f.all()
	for _, c := range members {
		c.stopping.Store(true)
	}
	for _, c := range slices.Backward(members) {
		c.stop()
	}
	f.leaveNode()
	_ = f.group.Wait() // The members' functions return no errors.
	f.fail(nil)
}

// stop ends one child. os.Process refuses signals to a child that has already exited.
func (c *child) stop() {
	_ = c.command.Process.Signal(syscall.SIGTERM)
	_ = c.command.Process.Signal(syscall.SIGCONT) // A paused process does not handle SIGTERM.
	grace := time.NewTimer(stopGrace)
	defer grace.Stop()
	select {
	case <-c.ended:
	case <-grace.C:
		_ = c.command.Process.Kill()
		<-c.ended
	}
}

// lastLines returns the last n lines of a file, or the reason why the file cannot be read.
func lastLines(path string, n int) string {
	content, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(content)), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
