package localcluster

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

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
