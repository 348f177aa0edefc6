package controller

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
)

// ends returns both ends of a TCP connection.
func ends(t testing.TB) (here, there *net.TCPConn) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	dialed, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	accepted, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = dialed.Close(), accepted.Close() })
	return dialed.(*net.TCPConn), accepted.(*net.TCPConn)
}

// newSockets returns both ends of a TCP connection. The first one is wrapped in a socket.
func newSockets(t testing.TB) (*socket, *net.TCPConn) {
	t.Helper()
	here, there := ends(t)
	return newSocket(here).(*socket), there
}

func TestASocketSendsAndReadsAllThoughItsBuffersAreFull(t *testing.T) {
	here, there := newSockets(t)
	want := make([]byte, 32<<20)
	random := rand.New(rand.NewPCG(3, 4))
	for i := range want {
		want[i] = byte(random.Uint32())
	}
	var echoed []byte
	group := lifecycle.New(t.Context())
	group.Go("echo", func(context.Context) error {
		_, err := io.Copy(struct{ io.Writer }{there}, struct{ io.Reader }{there})
		return errors.Join(err, there.Close())
	})
	group.Go("reader", func(context.Context) (err error) {
		echoed, err = io.ReadAll(here)
		return err
	})
	if n, err := here.Write(want); n != len(want) || err != nil {
		t.Errorf("Write = %d, %v", n, err)
	}
	if err := errors.Join(here.Conn.(*net.TCPConn).CloseWrite(), group.Wait()); err != nil {
		t.Error(err)
	}
	if !bytes.Equal(echoed, want) {
		t.Errorf("the %d bytes that came back differ from the %d that were sent", len(echoed), len(want))
	}
}

// A process that is stopped during a write may continue after its Lease has expired.
func TestASocketChecksAlsoAfterItHasWaitedForItsPeer(t *testing.T) {
	here, there := newSockets(t)
	var over atomic.Bool
	lost := errors.New("the Lease is lost")
	if checked(here, func() error {
		if over.Load() {
			return lost
		}
		return nil
	}) != net.Conn(here) {
		t.Error("a socket does not check by itself")
	}
	sent := make(chan int, 1)
	group := lifecycle.New(t.Context())
	group.Go("writer", func(context.Context) error {
		n, err := here.Write(make([]byte, 64<<20))
		sent <- n
		if !errors.Is(err, lost) {
			return fmt.Errorf("the write returned %w", err)
		}
		return nil
	})
	awaitFull(t, here)
	over.Store(true)
	received := make(chan int64, 1)
	group.Go("reader", func(context.Context) error {
		n, err := io.Copy(io.Discard, there)
		received <- n
		return err
	})
	n := <-sent
	if err := here.Close(); err != nil {
		t.Error(err)
	}
	if got := <-received; int64(n) != got || n == 64<<20 {
		t.Errorf("%d bytes were sent and %d received, want less than all", n, got)
	}
	if err := group.Wait(); err != nil {
		t.Error(err)
	}
}

// awaitFull waits until the kernel takes no more bytes of a socket.
func awaitFull(t *testing.T, of *socket) {
	t.Helper()
	var before int
	for same := 0; same < 5; {
		<-time.After(10 * time.Millisecond)
		queued := 0
		err := of.raw.Control(func(fd uintptr) {
			_, _, errno := syscall.Syscall(syscall.SYS_IOCTL, fd, syscall.TIOCOUTQ, uintptr(unsafe.Pointer(&queued)))
			if errno != 0 {
				t.Error(errno)
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		if same++; queued != before || queued == 0 {
			before, same = queued, 0
		}
	}
}

func TestASocketFailsAsAnyConnectionDoes(t *testing.T) {
	for _, test := range []struct {
		name string
		do   func(t *testing.T, here *socket, there *net.TCPConn) error
		want error
	}{
		{"the server closes it", func(_ *testing.T, here *socket, there *net.TCPConn) error {
			_ = there.Close()
			_, err := here.Read(make([]byte, 1))
			return err
		}, io.EOF},
		{"the server resets it", func(_ *testing.T, here *socket, there *net.TCPConn) error {
			_ = there.SetLinger(0)
			_ = there.Close()
			_, err := here.Read(make([]byte, 1))
			return err
		}, syscall.ECONNRESET},
		{"the server has gone", func(_ *testing.T, here *socket, there *net.TCPConn) error {
			_ = there.SetLinger(0)
			_ = there.Close()
			_, _ = here.Read(make([]byte, 1))
			_, err := here.Write([]byte("lost"))
			return err
		}, syscall.EPIPE},
		{"it is closed while it waits", func(t *testing.T, here *socket, _ *net.TCPConn) error {
			group := lifecycle.New(t.Context())
			group.Go("reader", func(context.Context) error {
				_, err := here.Read(make([]byte, 1))
				return err
			})
			_ = here.Close()
			return group.Wait()
		}, net.ErrClosed},
		{"nothing comes in time", func(_ *testing.T, here *socket, _ *net.TCPConn) error {
			_ = here.SetReadDeadline(time.Now().Add(time.Millisecond))
			_, err := here.Read(make([]byte, 1))
			return err
		}, os.ErrDeadlineExceeded},
		{"nobody reads in time", func(_ *testing.T, here *socket, _ *net.TCPConn) error {
			_ = here.SetWriteDeadline(time.Now().Add(10 * time.Millisecond))
			_, err := here.Write(make([]byte, 64<<20))
			return err
		}, os.ErrDeadlineExceeded},
	} {
		t.Run(test.name, func(t *testing.T) {
			here, there := newSockets(t)
			err := test.do(t, here, there)
			if !errors.Is(err, test.want) {
				t.Errorf("it failed with %v, want %v", err, test.want)
			}
			var named *net.OpError
			if !errors.Is(test.want, io.EOF) && (!errors.As(err, &named) || named.Addr == nil) {
				t.Errorf("the error does not name the connection: %v", err)
			}
		})
	}
}

func TestASocketReadsNothingIntoNoSpace(t *testing.T) {
	here, _ := newSockets(t)
	if n, err := here.Read(nil); n != 0 || err != nil {
		t.Errorf("Read(nil) = %d, %v", n, err)
	}
	if n, err := here.Write(nil); n != 0 || err != nil {
		t.Errorf("Write(nil) = %d, %v", n, err)
	}
}

// BenchmarkAnAnswer sends one request after another to another process, and sleeps until each answer
// arrives. It measures the CPU that this process takes for each.
func BenchmarkAnAnswer(b *testing.B) {
	for _, way := range []struct {
		name string
		over func(net.Conn) net.Conn
	}{
		{"as client-go", func(dialed net.Conn) net.Conn { return dialed }},
		{"socket", newSocket},
	} {
		b.Run(way.name, func(b *testing.B) {
			here, there := ends(b)
			far, err := there.File()
			if err != nil {
				b.Fatal(err)
			}
			_ = there.Close() // The duplicate in far remains, and goes to the other process.
			echo := exec.Command("cat")
			echo.Stdin, echo.Stdout = far, far
			if err := echo.Start(); err != nil {
				b.Fatal(err)
			}
			_ = far.Close()
			over := way.over(here)
			request := make([]byte, 600)
			var began, ended syscall.Rusage
			_ = syscall.Getrusage(syscall.RUSAGE_SELF, &began)
			for b.Loop() {
				if _, err := over.Write(request); err != nil {
					b.Fatal(err)
				}
				if _, err := io.ReadFull(over, request); err != nil {
					b.Fatal(err)
				}
			}
			_ = syscall.Getrusage(syscall.RUSAGE_SELF, &ended)
			cpu := ended.Utime.Nano() + ended.Stime.Nano() - began.Utime.Nano() - began.Stime.Nano()
			b.ReportMetric(float64(cpu)/float64(b.N), "cpu-ns/op")
			_ = over.Close()
			if err := echo.Wait(); err != nil {
				b.Fatal(err)
			}
		})
	}
}
