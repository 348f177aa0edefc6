package localcluster

import "syscall"

// childAttributes puts a child into its own process group, so that a terminal's Ctrl-C reaches
// only this process, which then stops the children in order. It also makes the kernel kill the
// child when the thread that started it ends, and so when this process is killed.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
