package report

import "syscall"

// childAttributes keep a terminal's Ctrl-C from the child, which this process then stops in
// order; and make the kernel kill the child when the thread that started it ends, so also
// when this process is killed.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
