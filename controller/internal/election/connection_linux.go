package election

import (
	"fmt"
	"net"
	"os"
	"syscall"
	"time"
)

// tcpUserTimeout is TCP_USER_TIMEOUT of linux/tcp.h.
const tcpUserTimeout = 0x12

// LimitUnsent limits how long the kernel tries to send bytes that the peer does not acknowledge. Then it closes the connection.
func LimitUnsent(dialed net.Conn, within time.Duration) error {
	tcp, is := dialed.(syscall.Conn)
	if !is {
		return nil
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return fmt.Errorf("limiting the time of unsent bytes: %w", err)
	}
	controlled := raw.Control(func(fd uintptr) {
		err = os.NewSyscallError("setsockopt", syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpUserTimeout, int(within.Milliseconds())))
	})
	if controlled != nil {
		err = controlled
	}
	if err != nil {
		return fmt.Errorf("limiting the time of unsent bytes: %w", err)
	}
	return nil
}
