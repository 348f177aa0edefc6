//go:build !unix

package cache_test

import "time"

var began = time.Now()

// cpuTime returns the time since the start, where the CPU time of the process is not known.
func cpuTime() time.Duration { return time.Since(began) }
