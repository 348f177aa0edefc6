package controller

import (
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"unsafe"
)

// socket is a TCP connection that makes its system calls without notifying the Go runtime. The calls
// never block: a socket waits in the runtime's poller, as every connection does. Its methods may be
// called from any goroutine.
//
// A call that the runtime is notified of wakes the runtime's monitor thread. The thread then looks for
// blocked calls every 20 µs until all threads are idle again. For a process that wakes for each answer
// and sleeps again, that takes a fifth of its CPU (BenchmarkAnAnswer).
//
// The monitor also preempts goroutines that run for long. Timers and all other system calls still wake
// it. So a goroutine that starts to run after an answer may run on until the next of these.
type socket struct {
	net.Conn
	raw   syscall.RawConn
	check func() error // called before each call that sends; nil for none
}

// newSocket returns a socket for a TCP connection, and any other connection as it is.
func newSocket(dialed net.Conn) net.Conn {
	tcp, is := dialed.(*net.TCPConn)
	if !is {
		return dialed
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return dialed
	}
	return &socket{Conn: tcp, raw: raw}
}

// checksItself makes a socket check before each call that sends, also after it has waited. It returns false for
// another connection.
func checksItself(dialed net.Conn, check func() error) bool {
	made, is := dialed.(*socket)
	if is {
		made.check = check
	}
	return is
}

// Read reads the bytes that have arrived, and waits if there are none.
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

// Write sends all bytes, and waits where the connection takes no more.
func (s *socket) Write(bytes []byte) (sent int, err error) {
	waiting := s.raw.Write(func(fd uintptr) (done bool) {
		for sent < len(bytes) {
			if s.check != nil {
				if err = s.check(); err != nil {
					return true
				}
			}
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

// failed returns the error that package net has for a call that failed.
func (s *socket) failed(operation string, err error) error {
	return &net.OpError{Op: operation, Net: s.RemoteAddr().Network(), Source: s.LocalAddr(), Addr: s.RemoteAddr(), Err: os.NewSyscallError(operation, err)}
}

// call makes a read or write call, and repeats it if a signal interrupts it.
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
