package controller

import (
	"context"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
)

// gathering is a server that answers when it has a number of requests.
type gathering struct {
	*httptest.Server
	wanted int
	dialed atomic.Int32 // connections

	mu      sync.Mutex
	seen    []string // the protocol and the address of each request
	waiting chan struct{}
}

func newGathering(t *testing.T) *gathering {
	t.Helper()
	g := &gathering{}
	g.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		g.mu.Lock()
		g.seen = append(g.seen, r.Proto+" "+r.RemoteAddr)
		waiting := g.waiting
		if len(g.seen) == g.wanted {
			close(waiting)
		}
		g.mu.Unlock()
		select {
		case <-waiting:
		case <-r.Context().Done():
		}
	}))
	g.EnableHTTP2 = true
	g.Config.ErrorLog = log.New(io.Discard, "", 0)
	g.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			g.dialed.Add(1)
		}
	}
	g.StartTLS()
	t.Cleanup(g.Close)
	return g
}

// at sends requests at once. It returns how many came with each protocol, and the connections.
func (g *gathering) at(t *testing.T, client *http.Client, method string, n int) (protocols map[string]int, connections map[string]bool) {
	t.Helper()
	var requests []*http.Request
	for range n {
		request, err := http.NewRequestWithContext(t.Context(), method, g.URL, strings.NewReader("a body"))
		if err != nil {
			t.Fatal(err)
		}
		requests = append(requests, request)
	}
	return g.each(t, client, requests...)
}

// each sends given requests at once.
func (g *gathering) each(t *testing.T, client *http.Client, requests ...*http.Request) (protocols map[string]int, connections map[string]bool) {
	t.Helper()
	g.mu.Lock()
	g.seen, g.wanted, g.waiting = nil, len(requests), make(chan struct{})
	g.mu.Unlock()
	group := lifecycle.New(t.Context())
	for _, request := range requests {
		group.Go("request", func(context.Context) error {
			ctx, cancel := context.WithTimeout(request.Context(), 20*time.Second)
			defer cancel()
			answer, err := client.Do(request.WithContext(ctx))
			if err != nil {
				return err
			}
			_, err = io.Copy(io.Discard, answer.Body)
			_ = answer.Body.Close()
			return err
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	protocols, connections = map[string]int{}, map[string]bool{}
	for _, seen := range g.seen {
		protocol, address, _ := strings.Cut(seen, " ")
		protocols[protocol]++
		connections[address] = true
	}
	return protocols, connections
}

// many is more than the writes of 32 workers.
const many = 120

func TestReadsShareAConnectionAndWritesHaveOthers(t *testing.T) {
	server := newGathering(t)
	client, err := clientFor(&rest.Config{Host: server.URL, TLSClientConfig: rest.TLSClientConfig{Insecure: true}})
	if err != nil {
		t.Fatal(err)
	}
	defer utilnet.CloseIdleConnectionsFor(client.Transport)
	server.at(t, client, http.MethodGet, 1) // Requests before the first connection would dial others.
	protocols, reads := server.at(t, client, http.MethodGet, many)
	if protocols["HTTP/2.0"] != many || len(reads) != 1 {
		t.Errorf("%d reads came with %v over %d connections", many, protocols, len(reads))
	}
	_, first := server.at(t, client, http.MethodPost, 1)
	for range 5 {
		if _, next := server.at(t, client, http.MethodPatch, 1); !maps.Equal(first, next) {
			t.Errorf("writes one after another use the connections %v and %v", first, next)
		}
	}
	server.at(t, client, http.MethodPost, writeConnections)
	for _, method := range []string{http.MethodPost, http.MethodPatch, http.MethodPut, http.MethodDelete} {
		protocols, writes := server.at(t, client, method, many)
		if protocols["HTTP/2.0"] != many || len(writes) != writeConnections {
			t.Errorf("%d writes of %s came with %v over %d connections", many, method, protocols, len(writes))
		}
		for address := range reads {
			if writes[address] {
				t.Errorf("writes of %s use the connection of reads", method)
			}
		}
	}
}

func TestIdleConnectionsOfWritesEndSoonExceptOne(t *testing.T) {
	client, err := clientFor(&rest.Config{Host: "https://127.0.0.1:1", UserAgent: "limited", TLSClientConfig: rest.TLSClientConfig{Insecure: true}})
	if err != nil {
		t.Fatal(err)
	}
	for i, over := range client.Transport.(byVerb).writes.(*leastBusy).over {
		want := idleFor
		if i == 0 {
			want = 0 // It stays for ever.
		}
		if of := innermost(over); of == nil || of.IdleConnTimeout != want {
			t.Errorf("transport %d for writes has the limits of %+v, want %v", i, of, want)
		}
	}
}

func TestABurstOfWritesDialsEachConnectionOnce(t *testing.T) {
	server := newGathering(t)
	config := &rest.Config{Host: server.URL, UserAgent: "bursts", TLSClientConfig: rest.TLSClientConfig{Insecure: true}}
	writes, err := writesFor(config, newLines(dial)) // The lines of the process know connections of other tests.
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: byVerb{http.DefaultTransport, writes, http.DefaultTransport}}
	defer utilnet.CloseIdleConnectionsFor(writes)
	ready, err := http.NewRequestWithContext(opening(t.Context()), http.MethodGet, server.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	_, opened := server.each(t, client, ready)
	if len(opened) != 1 || server.dialed.Load() != 1 {
		t.Fatalf("a read that opens a connection came over %v, %d were dialed", opened, server.dialed.Load())
	}
	_, first := server.at(t, client, http.MethodPost, 1)
	if !maps.Equal(first, opened) {
		t.Errorf("the first write came over %v, want the connection that is open, %v", first, opened)
	}
	_, all := server.at(t, client, http.MethodPost, many)
	if dialed := server.dialed.Load(); len(all) != writeConnections || dialed != writeConnections {
		t.Errorf("%d writes came over %d connections, and %d were dialed, want %d", many, len(all), dialed, writeConnections)
	}
}

func TestALineWhoseConnectionIsClosedIsNotOpen(t *testing.T) {
	near, far := net.Pipe()
	defer func() { _ = far.Close() }()
	line := newLines(func(context.Context, string, string) (net.Conn, error) { return near, nil })[0]
	dialed, err := line.holder.Dial(t.Context(), "tcp", "127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	line.open.Store(true)
	if err := dialed.Close(); err != nil || line.open.Load() {
		t.Errorf("after closing its connection, %v, the line is open: %t", err, line.open.Load())
	}
}

// lineOver answers at once, and counts what it has sent.
type lineOver struct{ sent *atomic.Int32 }

func (s lineOver) RoundTrip(*http.Request) (*http.Response, error) {
	s.sent.Add(1)
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
}

func TestRequestsForLeasesHaveAConnectionOfTheirOwn(t *testing.T) {
	var reads, writes, leases atomic.Int32
	client := byVerb{lineOver{&reads}, lineOver{&writes}, lineOver{&leases}}
	for request, over := range map[string]*atomic.Int32{
		"PUT /apis/coordination.k8s.io/v1/namespaces/system/leases/operator":           &leases,
		"GET /apis/coordination.k8s.io/v1/namespaces/system/leases/operator":           &leases,
		"POST /proxy/apis/coordination.k8s.io/v1/namespaces/system/leases":             &leases,
		"GET /apis/coordination.k8s.io/v1/namespaces/system/leases?limit=5&watch=true": &reads,
		"PUT /api/v1/namespaces/system/configmaps/leases":                              &writes,
		"GET /apis/example.com/v1/namespaces/coordination/leases/of-some-flats":        &reads,
	} {
		before := over.Load()
		method, path, _ := strings.Cut(request, " ")
		answer, err := client.RoundTrip(httptest.NewRequest(method, path, http.NoBody))
		if err != nil || over.Load() != before+1 {
			t.Errorf("%s was sent over another connection: %d reads, %d writes, %d for Leases, %v", request, reads.Load(), writes.Load(), leases.Load(), err)
			continue
		}
		_ = answer.Body.Close()
	}
}
