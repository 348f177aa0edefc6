// Package subprocess has what the child processes of the project have in common.
package subprocess

import "syscall"

// Attributes returns the attributes of a child process. They put the child into its own process group, so that a
// terminal's Ctrl-C reaches only this process, which then stops the child in order. The kernel kills the child when the
// thread that started it ends, and so when this process is killed.
func Attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
