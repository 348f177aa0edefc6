package controller

import (
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/prometheus/client_golang/prometheus"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
)

// gathering is a server that answers when it has a number of requests.
type gathering struct {
	*httptest.Server
	wanted int

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
	g.StartTLS()
	t.Cleanup(g.Close)
	return g
}

// at sends requests at once. It returns how many came with each protocol, and the connections.
func (g *gathering) at(t *testing.T, client *http.Client, method string, n int) (protocols map[string]int, connections map[string]bool) {
	t.Helper()
	g.mu.Lock()
	g.seen, g.wanted, g.waiting = nil, n, make(chan struct{})
	g.mu.Unlock()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	group := lifecycle.New(ctx)
	for range n {
		group.Go("request", func(ctx context.Context) error {
			request, err := http.NewRequestWithContext(ctx, method, g.URL, strings.NewReader("a body"))
			if err != nil {
				return err
			}
			answer, err := client.Do(request)
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

// many is more than the connections that client-go keeps, and than the writes of 32 workers.
const many = 120

func TestReadsShareAConnectionAndEachWriteInFlightHasItsOwn(t *testing.T) {
	server := newGathering(t)
	client, err := clientFor(&rest.Config{Host: server.URL, TLSClientConfig: rest.TLSClientConfig{Insecure: true}})
	if err != nil {
		t.Fatal(err)
	}
	defer utilnet.CloseIdleConnectionsFor(client.Transport)
	server.at(t, client, http.MethodGet, 1) // Requests before the first connection would dial others.
	if protocols, connections := server.at(t, client, http.MethodGet, many); protocols["HTTP/2.0"] != many || len(connections) != 1 {
		t.Errorf("%d reads came with %v over %d connections", many, protocols, len(connections))
	}
	var first map[string]bool
	for _, method := range []string{http.MethodPost, http.MethodPatch, http.MethodPut, http.MethodDelete} {
		protocols, connections := server.at(t, client, method, many)
		if protocols["HTTP/1.1"] != many || len(connections) != many {
			t.Errorf("%d writes of %s came with %v over %d connections", many, method, protocols, len(connections))
		}
		if first == nil {
			first = connections
		}
		for address := range connections {
			if !first[address] {
				t.Fatalf("writes of %s dialed again, and connections of earlier writes were idle", method)
			}
		}
	}
}

func TestProtocolsOfTheConfigurationHoldForWritesToo(t *testing.T) {
	server := newGathering(t)
	for _, protocol := range []string{"h2", "http/1.1"} {
		client, err := clientFor(&rest.Config{Host: server.URL, TLSClientConfig: rest.TLSClientConfig{Insecure: true, NextProtos: []string{protocol}}})
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]string{"h2": "HTTP/2.0", "http/1.1": "HTTP/1.1"}[protocol]
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			if protocols, _ := server.at(t, client, method, 1); protocols[want] != 1 {
				t.Errorf("with %s, a %s came with %v", protocol, method, protocols)
			}
		}
		utilnet.CloseIdleConnectionsFor(client.Transport)
	}
}

func TestAWriteWhoseContextEndsFailsWithTheErrorOfTheContext(t *testing.T) {
	server := newGathering(t)
	server.wanted, server.waiting = 2, make(chan struct{}) // One request gets no answer.
	client, err := clientFor(&rest.Config{Host: server.URL, TLSClientConfig: rest.TLSClientConfig{Insecure: true}})
	if err != nil {
		t.Fatal(err)
	}
	defer utilnet.CloseIdleConnectionsFor(client.Transport)
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		ctx, cancel := context.WithTimeoutCause(t.Context(), 100*time.Millisecond, errors.New("a cause"))
		request, err := http.NewRequestWithContext(ctx, method, server.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		server.mu.Lock()
		server.seen = nil
		server.mu.Unlock()
		answer, err := client.Do(request)
		if err == nil {
			_ = answer.Body.Close()
		}
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a %s failed with %v", method, err)
		}
		cancel()
	}
}

func TestABodyOfAWriteWhoseContextEndsFailsWithTheErrorOfTheContext(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}))
	defer server.Close()
	client, err := clientFor(&rest.Config{Host: server.URL, TLSClientConfig: rest.TLSClientConfig{Insecure: true}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeoutCause(t.Context(), 100*time.Millisecond, errors.New("a cause"))
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, server.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if _, err := io.ReadAll(answer.Body); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the body failed with %v", err)
	}
}

func TestWritesHaveLimitsOfTheirOwn(t *testing.T) {
	client, err := clientFor(&rest.Config{Host: "https://127.0.0.1:1", UserAgent: "limited", TLSClientConfig: rest.TLSClientConfig{Insecure: true}})
	if err != nil {
		t.Fatal(err)
	}
	both := client.Transport.(byVerb)
	reads, writes := innermost(both.reads), innermost(both.writes)
	if writes == nil || writes.IdleConnTimeout != idleFor || writes.ResponseHeaderTimeout != answerWithin {
		t.Errorf("the transport for writes has the limits of %+v", writes)
	}
	if reads == nil || reads.ResponseHeaderTimeout != 0 { // A watch may have no head for a minute.
		t.Errorf("the transport for reads has the limits of %+v", reads)
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
	if one.Transport != other.Transport {
		t.Error("two managers have a transport each")
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
