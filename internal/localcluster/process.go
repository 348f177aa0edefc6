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
)

// errAddressInUse is what a child died of if somebody else took its port.
var errAddressInUse = errors.New("a port was taken by another process")

// stopGrace is how long a child may take to end after SIGTERM before it is killed. Its
// data are deleted right after, so there is nothing to lose.
const stopGrace = 3 * time.Second

// family is the children of one cluster. None outlives stop.
type family struct {
	directory string   // where the logs go, and the children's working directory
	env       []string // their whole environment

	group *lifecycle.Group
	ctx   context.Context // ends with the first child that ends by itself, and why
	fail  context.CancelCauseFunc

	mu      sync.Mutex
	members []*child // in the order they were started in
}

// child is one process of a family.
type child struct {
	command  *exec.Cmd
	stopping atomic.Bool
	ended    chan struct{}
}

func newFamily(directory string, env []string) *family {
	f := &family{directory: directory, env: env, group: lifecycle.New(context.Background())}
	f.ctx, f.fail = context.WithCancelCause(context.Background())
	return f
}

// start runs a binary, with its output in a log file called after it.
func (f *family) start(path string, arguments ...string) error {
	name := filepath.Base(path)
	log, err := os.OpenFile(f.logFile(name), os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("opening the log of %s: %w", name, err)
	}
	c := &child{command: exec.Command(path, arguments...), ended: make(chan struct{})}
	c.command.Dir = f.directory
	c.command.Env = f.env
	c.command.Stdout = log
	c.command.Stderr = log
	c.command.SysProcAttr = childAttributes()

	started := make(chan error, 1)
	f.group.Go(name, func(context.Context) error {
		// The kernel kills the child when the thread that forked it ends (see
		// childAttributes), so this thread has to live as long as the child.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer close(c.ended)
		defer log.Close()

		err := c.command.Start()
		started <- err
		if err != nil {
			return nil
		}
		err = c.command.Wait()
		if !c.stopping.Load() {
			f.fail(f.obituary(name, err))
		}
		return nil
	})
	if err := <-started; err != nil {
		return fmt.Errorf("starting %s: %w", path, err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.members = append(f.members, c)
	return nil
}

// all returns the members in the order they were started in.
func (f *family) all() []*child {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.members)
}

// find returns the member that runs a program, or nil.
func (f *family) find(name string) *child {
	for _, c := range f.all() {
		if filepath.Base(c.command.Path) == name {
			return c
		}
	}
	return nil
}

// kill ends the members at once, in the reverse order of their start. The family lives on,
// for others that take their place.
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

// obituary says how a child ended that nobody stopped.
func (f *family) obituary(name string, err error) error {
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

// stop ends the children in the reverse order of their start, so that none loses the one
// that it talks to, and returns once the last has gone.
func (f *family) stop() {
	members := f.all()
	for _, c := range members {
		c.stopping.Store(true)
	}
	for _, c := range slices.Backward(members) {
		c.stop()
	}
	_ = f.group.Wait() // The members' functions return no errors.
	f.fail(nil)
}

// stop ends one child. Signals to one that has ended already are refused by os.Process.
func (c *child) stop() {
	_ = c.command.Process.Signal(syscall.SIGTERM)
	_ = c.command.Process.Signal(syscall.SIGCONT) // A process that is paused would not see the other one.
	grace := time.NewTimer(stopGrace)
	defer grace.Stop()
	select {
	case <-c.ended:
	case <-grace.C:
		_ = c.command.Process.Kill()
		<-c.ended
	}
}

// lastLines are the last n lines of a file, or why it cannot be read.
func lastLines(path string, n int) string {
	content, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(content)), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
