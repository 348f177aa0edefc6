//go:build unix

package processors

import (
	"syscall"
	"time"
)

// taken returns the CPU time of the process, in user mode and in the kernel.
func taken() (cpu time.Duration, known bool) {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0, false
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano()), true
}
