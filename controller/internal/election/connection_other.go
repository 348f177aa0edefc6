//go:build !linux

package election

import (
	"net"
	"time"
)

// limitUnsent does nothing, because other systems have no such limit.
func limitUnsent(net.Conn, time.Duration) error { return nil }
