package controller

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/prometheus/client_golang/prometheus"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
)

// wire is a connection in which each send blocks until the test lets it return.
type wire struct {
	net.Conn
	mu    sync.Mutex
	sends []string
	takes chan error // the result of each send
}

func (w *wire) Write(sent []byte) (int, error) {
	w.mu.Lock()
	w.sends = append(w.sends, string(sent))
	w.mu.Unlock()
	if err := <-w.takes; err != nil {
		return 0, err
	}
	return len(sent), nil
}

// Read blocks until the connection is closed, like a TCP connection to a server that sends nothing.
func (w *wire) Read(space []byte) (int, error) {
	_, _ = w.Conn.Read(space)
	return 0, net.ErrClosed
}

func (w *wire) sent() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Join(w.sends, "|")
}

// newWire returns a connection over a wire. The test closes the connection.
func newWire(t *testing.T) (*connection, *wire) {
	here, there := net.Pipe()
	t.Cleanup(func() { _ = there.Close() })
	w := &wire{Conn: here, takes: make(chan error)}
	return newConnection(w), w
}

func write(t *testing.T, c net.Conn, text string) {
	t.Helper()
	if n, err := c.Write([]byte(text)); n != len(text) || err != nil {
		t.Fatalf("Write(%q) = %d, %v", text, n, err)
	}
}

func TestWhatIsWrittenDuringASendIsSentTogetherAfterIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, w := newWire(t)
		write(t, c, "header ")
		synctest.Wait()
		for _, text := range []string{"body ", "header ", "body"} {
			write(t, c, text)
		}
		w.takes <- nil
		w.takes <- nil
		synctest.Wait()
		if got, want := w.sent(), "header |body header body"; got != want {
			t.Errorf("sent %q, want %q", got, want)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestAWriterWaitsWhileTooMuchWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, w := newWire(t)
		write(t, c, "first")
		synctest.Wait()
		write(t, c, strings.Repeat(".", maxPending))
		wrote := make(chan struct{})
		group := lifecycle.New(t.Context())
		group.Go("writer", func(context.Context) error {
			defer close(wrote)
			_, err := c.Write([]byte("last"))
			return err
		})
		synctest.Wait()
		select {
		case <-wrote:
			t.Error("a writer did not wait for the 64 KiB before it to be sent")
		default:
		}
		w.takes <- nil
		<-wrote
		w.takes <- nil
		w.takes <- nil
		synctest.Wait()
		if got := w.sent(); !strings.HasSuffix(got, ".|last") {
			t.Errorf("sent %q at the end", got[max(0, len(got)-10):])
		}
		if err := errors.Join(group.Wait(), c.Close()); err != nil {
			t.Error(err)
		}
	})
}

func TestASendThatFailsIsToldToWritersAndReaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, w := newWire(t)
		group := lifecycle.New(t.Context())
		group.Go("reader", func(context.Context) error {
			_, err := c.Read(make([]byte, 1))
			return err
		})
		write(t, c, "lost")
		w.takes <- syscall.ECONNRESET
		if err := group.Wait(); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("Read = %v, want the error of the send", err)
		}
		if _, err := c.Write([]byte("more")); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("Write = %v, want the error of the send", err)
		}
		_ = c.Close()
	})
}

func TestClosingSendsWhatWaitsAndThenNothingCanBeWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, w := newWire(t)
		write(t, c, "a request ")
		synctest.Wait()
		write(t, c, "good bye")
		group := lifecycle.New(t.Context())
		group.Go("closer", func(context.Context) error { return c.Close() })
		synctest.Wait()
		w.takes <- nil
		w.takes <- nil
		if err := group.Wait(); err != nil {
			t.Error(err)
		}
		if got, want := w.sent(), "a request |good bye"; got != want {
			t.Errorf("sent %q, want %q", got, want)
		}
		if _, err := c.Write([]byte("more")); !errors.Is(err, net.ErrClosed) {
			t.Errorf("Write = %v, want net.ErrClosed", err)
		}
	})
}

func TestClosingDoesNotWaitForAServerThatReadsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		here, there := net.Pipe()
		defer there.Close()
		c := newConnection(here)
		write(t, c, "nobody reads this")
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestBytesArriveAsTheyWereWritten(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	var arrived []byte
	group := lifecycle.New(t.Context())
	group.Go("server", func(context.Context) error {
		accepted, err := listener.Accept()
		if err != nil {
			return err
		}
		defer accepted.Close()
		arrived, err = io.ReadAll(accepted)
		return err
	})
	c, err := dial(t.Context(), "tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	var want []byte
	random := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		piece := make([]byte, random.IntN(4000))
		for i := range piece {
			piece[i] = byte(random.Uint32())
		}
		want = append(want, piece...)
		write(t, c, string(piece))
		clear(piece) // A writer may reuse its buffer when Write has returned.
	}
	if err := errors.Join(c.Close(), group.Wait()); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(arrived, want) {
		t.Errorf("the %d bytes that arrived differ from the %d that were written", len(arrived), len(want))
	}
}

func TestManagersOfAnAPIServerShareConnections(t *testing.T) {
	config := &rest.Config{Host: "https://127.0.0.1:1", TLSClientConfig: rest.TLSClientConfig{Insecure: true}}
	one, err := clientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	other, err := clientFor(rest.CopyConfig(config))
	if err != nil {
		t.Fatal(err)
	}
	first, second := one.Transport.(byVerb), other.Transport.(byVerb)
	if first.reads != second.reads || first.writes.(*leastBusy).over != second.writes.(*leastBusy).over {
		t.Error("two managers have transports each")
	}
	config.Dial = func(context.Context, string, string) (net.Conn, error) { return nil, io.ErrNoProgress }
	own, err := clientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := own.Get(config.Host); !errors.Is(err, io.ErrNoProgress) {
		t.Errorf("a configuration that dials itself got %v", err)
	}
}

// idle is a transport that counts the calls of CloseIdleConnections.
type idle struct {
	http.RoundTripper
	closed int
}

func (i *idle) CloseIdleConnections() { i.closed++ }

func TestIdleConnectionsOfAManagersClientCanBeClosed(t *testing.T) {
	within := &idle{}
	client := &http.Client{Transport: within}
	measured := measureRequests(prometheus.NewRegistry(), client)
	measured.CloseIdleConnections()
	utilnet.CloseIdleConnectionsFor(measured.Transport)
	if within.closed != 2 {
		t.Errorf("they were closed %d times, want 2", within.closed)
	}
	if client.Transport != within {
		t.Error("the given client is changed, and others may use it")
	}
}

// counted is a connection that counts its sends.
type counted struct {
	net.Conn
	sends *atomic.Int64
}

func (c counted) Write(sent []byte) (int, error) {
	c.sends.Add(1)
	return c.Conn.Write(sent)
}

// BenchmarkRequests measures the requests of 16 writers that share an HTTP/2 connection.
func BenchmarkRequests(b *testing.B) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, "done")
	}))
	server.EnableHTTP2 = true
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	defer server.Close()
	for _, way := range []struct {
		name string
		over func(net.Conn) net.Conn
	}{
		{"as client-go", func(dialed net.Conn) net.Conn { return dialed }},
		{"gathered", func(dialed net.Conn) net.Conn { return newConnection(dialed) }},
	} {
		b.Run(way.name, func(b *testing.B) {
			var sends atomic.Int64
			transport := &http.Transport{
				ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
				DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
					dialed, err := new(net.Dialer).DialContext(ctx, network, address)
					return way.over(counted{dialed, &sends}), err
				},
			}
			defer transport.CloseIdleConnections()
			client := &http.Client{Transport: transport}
			b.SetParallelism(max(1, 16/runtime.GOMAXPROCS(0)))
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					answer, err := client.Post(server.URL, "application/json", strings.NewReader(strings.Repeat("x", 600)))
					if err != nil {
						b.Error(err)
						return
					}
					_, _ = io.Copy(io.Discard, answer.Body)
					_ = answer.Body.Close()
				}
			})
			b.ReportMetric(float64(sends.Load())/float64(b.N), "sends/op")
		})
	}
}
