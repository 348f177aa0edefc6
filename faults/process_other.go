//go:build !linux

package faults

import "syscall"

// childAttributes returns the attributes of an operator's process. Only Linux can kill the process
// when the tests are killed.
func childAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
