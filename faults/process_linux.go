package faults

import "syscall"

// childAttributes returns the attributes of an operator's process. The kernel kills the process when
// the thread that started it ends, and so when the tests are killed.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
