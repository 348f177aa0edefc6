//go:build !unix

package processors

import "time"

// taken is not known here.
func taken() (cpu time.Duration, known bool) { return 0, false }
