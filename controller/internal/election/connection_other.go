//go:build !linux

package election

import (
	"net"
	"time"
)

// LimitUnsent does nothing, because other systems have no such limit.
func LimitUnsent(net.Conn, time.Duration) error { return nil }
