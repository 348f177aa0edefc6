//go:build unix

package cputime

import (
	"syscall"
	"time"
)

// Used returns the CPU time of the process since it began, in user mode and in the kernel. known is
// false if the system does not report it. Any goroutine may call Used.
func Used() (cpu time.Duration, known bool) {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0, false
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano()), true
}
