package localcluster

import (
	"errors"
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"
)

// childAttributes puts a child into its own process group, so that a terminal's Ctrl-C reaches
// only this process, which then stops the children in order. It also makes the kernel kill the
// child when the thread that started it ends, and so when this process is killed.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// awaitStopped returns when all threads of a child that got SIGSTOP have stopped. Until then, a
// thread on another processor still runs, and may answer a request.
func awaitStopped(pid int) error {
	for {
		var info unix.Siginfo
		// With WNOWAIT, the exit status stays for the goroutine that waits for the child.
		err := unix.Waitid(unix.P_PID, pid, &info, unix.WSTOPPED|unix.WEXITED|unix.WNOWAIT, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return fmt.Errorf("wait until process %d stops: %w", pid, err)
		case info.Code != cldStopped:
			return fmt.Errorf("process %d ended before it stopped", pid)
		default:
			return nil
		}
	}
}

// cldStopped is CLD_STOPPED of waitid(2): the child was stopped by a signal.
const cldStopped = 5
