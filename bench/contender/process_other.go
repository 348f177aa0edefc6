//go:build !linux

package contender

import "syscall"

// ChildAttributes returns the attributes of a child process of the comparison. They put the child
// into its own process group, so that a terminal's Ctrl-C reaches only this process. Only Linux
// can also kill the child when this process is killed.
func ChildAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
