//go:build !unix

package cputime

import "time"

// Used reports that the CPU time is not known on this system.
func Used() (cpu time.Duration, known bool) { return 0, false }
