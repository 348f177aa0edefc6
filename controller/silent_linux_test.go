package controller

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"golang.org/x/sys/unix"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
)

// silence makes the kernel drop whatever arrives for a connection, so that it acknowledges nothing.
func silence(t *testing.T, accepted *net.TCPConn) {
	t.Helper()
	raw, err := accepted.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	drop := unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K}
	controlled := raw.Control(func(fd uintptr) {
		err = unix.SetsockoptSockFprog(int(fd), unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: 1, Filter: &drop})
	})
	if err := errors.Join(controlled, err); err != nil {
		t.Fatal(err)
	}
}

func TestAConnectionWhoseOtherSideIsGoneEndsBeforeALease(t *testing.T) {
	here, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer here.Close()
	dialed, err := dial(t.Context(), "tcp", here.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer dialed.Close()
	accepted, err := here.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer accepted.Close()
	silence(t, accepted.(*net.TCPConn))
	began := time.Now()
	if _, err := dialed.Write([]byte("nothing answers")); err != nil {
		t.Fatal(err)
	}
	_, err = dialed.Read(make([]byte, 1))
	if after := time.Since(began); !errors.Is(err, syscall.ETIMEDOUT) || after < silentFor/2 || after > silentFor+time.Second {
		t.Errorf("the connection failed with %v after %v, want a time-out after %v", err, after, silentFor)
	}
}

// All connections to the API server die at once, as behind a load balancer that restarts. The renewals are sent when a
// leader would send them, and the second one has to go over a new connection.
func TestALeaseIsRenewedInTimeAlthoughAllConnectionsAreSilent(t *testing.T) {
	var mu sync.Mutex
	accepted := map[*net.TCPConn]struct{}{}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	server.EnableHTTP2 = true
	server.Config.ConnState = func(made net.Conn, state http.ConnState) {
		mu.Lock()
		defer mu.Unlock()
		switch connection := made.(*tls.Conn).NetConn().(*net.TCPConn); state {
		case http.StateNew:
			accepted[connection] = struct{}{}
		case http.StateClosed:
			delete(accepted, connection)
		}
	}
	server.StartTLS()
	t.Cleanup(server.Close)
	client, err := clientFor(&rest.Config{Host: server.URL, UserAgent: "renewals", TLSClientConfig: rest.TLSClientConfig{Insecure: true}})
	if err != nil {
		t.Fatal(err)
	}
	defer utilnet.CloseIdleConnectionsFor(client.Transport)
	renew := func(within time.Duration) error {
		ctx, cancel := context.WithTimeout(t.Context(), within)
		defer cancel()
		request, err := http.NewRequestWithContext(ctx, http.MethodPut, server.URL+"/apis/coordination.k8s.io/v1/namespaces/system/leases/operator", strings.NewReader("{}"))
		if err != nil {
			return err
		}
		answer, err := client.Do(request)
		if err != nil {
			return err
		}
		_, err = io.Copy(io.Discard, answer.Body)
		return errors.Join(err, answer.Body.Close())
	}
	for _, lease := range []time.Duration{defaultLeaseDuration, defaultLeaseDuration / 3} {
		if err := renew(10 * time.Second); err != nil {
			t.Fatal(err)
		}
		renewed := time.Now()
		mu.Lock()
		if len(accepted) == 0 {
			t.Error("no connection is open")
		}
		for connection := range accepted {
			silence(t, connection)
		}
		mu.Unlock()
		deadline, pause := lease*2/3, lease*2/15
		for due := pause; due < deadline; due = time.Since(renewed) + pause {
			<-time.After(due - time.Since(renewed))
			if err = renew((deadline - time.Since(renewed)) / 2); err == nil { // As in package election.
				break
			}
		}
		if after := time.Since(renewed); err != nil || after > deadline {
			t.Errorf("a Lease of %v was not renewed %v after the connections died: %v", lease, after, err)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	for connection := range accepted {
		_ = connection.Close() // The server does not notice that these are closed.
	}
}

func TestAConnectionForLeasesThatIsHeardStaysOpen(t *testing.T) {
	arrived, slow := make(chan struct{}), make(chan struct{})
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/slow") {
			close(arrived)
			select {
			case <-slow:
			case <-r.Context().Done():
			}
		}
	}))
	var dialed atomic.Int32
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			dialed.Add(1)
		}
	}
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	client, err := clientFor(&rest.Config{Host: server.URL, UserAgent: "heard", TLSClientConfig: rest.TLSClientConfig{Insecure: true}})
	if err != nil {
		t.Fatal(err)
	}
	defer utilnet.CloseIdleConnectionsFor(client.Transport)
	send := func(ctx context.Context, name string) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodDelete, server.URL+"/apis/coordination.k8s.io/v1/namespaces/system/leases/"+name, http.NoBody)
		if err != nil {
			return err
		}
		answer, err := client.Do(request)
		if err != nil {
			return err
		}
		return answer.Body.Close()
	}
	if err := send(t.Context(), "quick"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	group := lifecycle.New(t.Context())
	group.Go("slow", func(context.Context) error {
		if err := send(ctx, "slow"); !errors.Is(err, context.Canceled) {
			t.Errorf("the slow request returned %v", err)
		}
		return nil
	})
	<-arrived
	if err := send(t.Context(), "quick"); err != nil {
		t.Error(err)
	}
	cancel()
	if err := group.Wait(); err != nil {
		t.Error(err)
	}
	close(slow)
	if err := send(t.Context(), "quick"); err != nil || dialed.Load() != 1 {
		t.Errorf("%v; %d connections were dialed, want 1: the others' answers came over it", err, dialed.Load())
	}
}
