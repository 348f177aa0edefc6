package contender

import "syscall"

// ChildAttributes are those of a child of the comparison. They put it into a process group of
// its own, so that a terminal's Ctrl-C reaches this process alone; and make the kernel kill
// it when the thread that started it ends, so also when this process is killed.
func ChildAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
