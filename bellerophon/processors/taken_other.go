//go:build !unix

package processors

import "time"

// taken reports that the CPU time is not known on this system.
func taken() (cpu time.Duration, known bool) { return 0, false }
