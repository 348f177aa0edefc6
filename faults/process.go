package faults

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"

	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/internal/subprocess"
)

// stopGrace is the time that an operator may take to end after SIGTERM.
const stopGrace = 10 * time.Second

// process is a running operator.
type process struct {
	command *exec.Cmd
	group   *lifecycle.Group
	ended   chan struct{}
}

// launch starts an operator. Its output is appended to a file.
func launch(command *exec.Cmd, output *os.File) (*process, error) {
	command.Stdout, command.Stderr = output, output
	command.SysProcAttr = subprocess.Attributes()
	p := &process{command: command, group: lifecycle.New(context.Background()), ended: make(chan struct{})}
	started := make(chan error, 1)
	p.group.Go("operator", func(context.Context) error {
		// The kernel kills the process when the thread that forked it ends: see subprocess.Attributes.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer close(p.ended)
		err := command.Start()
		started <- err
		if err == nil {
			_ = command.Wait() // How it ended does not matter.
		}
		return nil
	})
	if err := <-started; err != nil {
		_ = p.group.Wait() // The function returns no error.
		return nil, fmt.Errorf("start %s: %w", command.Path, err)
	}
	return p, nil
}

// kill ends the process as kill -9 does, and returns when it is gone.
func (p *process) kill() {
	_ = p.command.Process.Kill() // It may have ended by itself.
	_ = p.group.Wait()           // The function returns no error.
}

// signal sends a signal to the process, unless it has ended.
func (p *process) signal(signal syscall.Signal) { _ = p.command.Process.Signal(signal) }

// stop ends the process in the ordinary way, and by force if that takes too long.
func (p *process) stop() {
	p.signal(syscall.SIGTERM)
	timer := time.NewTimer(stopGrace)
	defer timer.Stop()
	select {
	case <-p.ended:
	case <-timer.C:
	}
	p.kill()
}
