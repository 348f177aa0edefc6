package controller

import (
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"unsafe"
)

// socket is a TCP connection whose system calls the Go runtime is not told of. They never
// block: it waits, as all connections, in the runtime's poller. Told of each, the runtime wakes
// its monitor thread out of its sleep, which then looks every 20 µs for a call that blocks
// until all are idle again. For a process that wakes for each answer and sleeps again that is a
// fifth of its CPU (BenchmarkAnAnswer). Its methods may be called from any goroutine.
//
// The monitor also interrupts goroutines that run for long. It is woken by timers and all other
// system calls as before, so that one that began after an answer may run until the next of those.
type socket struct {
	net.Conn
	raw syscall.RawConn
}

// newSocket is a socket, where the connection is one of TCP.
func newSocket(dialed net.Conn) net.Conn {
	tcp, is := dialed.(*net.TCPConn)
	if !is {
		return dialed
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return dialed
	}
	return &socket{tcp, raw}
}

// Read reads what came, or waits for something.
func (s *socket) Read(bytes []byte) (n int, err error) {
	if len(bytes) == 0 {
		return 0, nil
	}
	waiting := s.raw.Read(func(fd uintptr) (done bool) {
		n, err = call(syscall.SYS_READ, fd, bytes)
		return !errors.Is(err, syscall.EAGAIN)
	})
	switch {
	case waiting != nil:
		return 0, waiting
	case err != nil:
		return 0, s.failed("read", err)
	case n == 0:
		return 0, io.EOF
	}
	return n, nil
}

// Write sends all, unless it fails.
func (s *socket) Write(bytes []byte) (sent int, err error) {
	waiting := s.raw.Write(func(fd uintptr) (done bool) {
		for sent < len(bytes) {
			var n int
			if n, err = call(syscall.SYS_WRITE, fd, bytes[sent:]); err != nil {
				return !errors.Is(err, syscall.EAGAIN)
			}
			sent += n
		}
		return true
	})
	switch {
	case waiting != nil:
		return sent, waiting
	case err != nil:
		return sent, s.failed("write", err)
	}
	return sent, nil
}

// failed is the error of package net for a call that failed.
func (s *socket) failed(operation string, err error) error {
	return &net.OpError{Op: operation, Net: s.RemoteAddr().Network(), Source: s.LocalAddr(), Addr: s.RemoteAddr(), Err: os.NewSyscallError(operation, err)}
}

// call reads or writes, as often as a signal interrupts it.
func call(number, fd uintptr, bytes []byte) (int, error) {
	for {
		n, _, errno := syscall.RawSyscall(number, fd, uintptr(unsafe.Pointer(&bytes[0])), uintptr(len(bytes)))
		switch errno {
		case 0:
			return int(n), nil
		case syscall.EINTR:
		default:
			return 0, errno
		}
	}
}
