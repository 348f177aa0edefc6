//go:build !linux

package report

import "syscall"

// childAttributes keep a terminal's Ctrl-C from the child, which this process then stops in
// order. Only Linux has a way to end it as well when this process is killed.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
