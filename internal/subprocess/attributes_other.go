//go:build !linux

package subprocess

import "syscall"

// Attributes returns the attributes of a child process. They put the child into its own process group, so that a
// terminal's Ctrl-C reaches only this process, which then stops the child in order. Only Linux can also kill the child
// when this process is killed.
func Attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
