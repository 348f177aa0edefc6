//go:build unix

package cache_test

import (
	"syscall"
	"time"
)

// cpuTime returns the CPU time of the process so far. Unlike the time of a clock, it does not grow
// while other processes run.
func cpuTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		panic(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
