package contender

import "syscall"

// ChildAttributes returns the attributes of a child process of the comparison. They put the child
// into its own process group, so that a terminal's Ctrl-C reaches only this process. The kernel
// kills the child when the thread that started it ends, and so when this process is killed.
func ChildAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
