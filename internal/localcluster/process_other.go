//go:build !linux

package localcluster

import "syscall"

// childAttributes puts a child into its own process group, so that a terminal's Ctrl-C reaches
// only this process, which then stops the children in order. Only Linux can also kill the child
// when this process is killed.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}

// awaitStopped returns at once, as only Linux can wait for a stop without taking the exit status.
func awaitStopped(int) error { return nil }
