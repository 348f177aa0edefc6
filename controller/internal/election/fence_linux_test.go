package election

import (
	"net"
	"syscall"
	"testing"
	"time"
)

// checkLimit checks how long the kernel tries to send.
func checkLimit(t *testing.T, of net.Conn) {
	t.Helper()
	raw, err := of.(*connection).dialed.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	limit := 0
	controlled := raw.Control(func(fd uintptr) { limit, err = syscall.GetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpUserTimeout) })
	if want := (defaults.LeaseDuration - defaults.RenewDeadline) / 5; controlled != nil || err != nil || time.Duration(limit)*time.Millisecond != want {
		t.Errorf("the kernel tries to send for %d ms, %v, %v; want %v", limit, controlled, err, want)
	}
}
