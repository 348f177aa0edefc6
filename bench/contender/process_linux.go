package contender

import "syscall"

// childAttributes put a child into a process group of its own, so that a terminal's
// Ctrl-C reaches this process alone; and make the kernel kill the child when the thread
// that started it ends, so also when this process is killed.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
