package forward

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/bellerophon/dev/container"
	"github.com/bellerophon-io/bellerophon/bellerophon/dev/contract"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	upgrade "k8s.io/apimachinery/pkg/util/proxy"
	"k8s.io/apiserver/pkg/util/proxy"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"
)

// cluster is an API server that forwards ports of pods, as kubelets do.
type cluster struct {
	t      *testing.T
	server *httptest.Server
	group  *lifecycle.Group // of requests

	mu       sync.Mutex
	pods     map[string]*pod
	dials    int
	upgraded []net.Conn // of the servers
}

// pod is a pod with a server.
type pod struct {
	address     string // of its server, whatever port is forwarded
	connections []httpstream.Connection
	message     string // with which every request fails
}

// newCluster starts a cluster that offers websockets, or only SPDY as older API servers do.
func newCluster(t *testing.T, websockets bool) *cluster {
	t.Helper()
	made := &cluster{t: t, group: lifecycle.New(context.Background()), pods: map[string]*pod{}}
	made.server = made.listen(made.serve)
	behind := made.server
	if websockets { // The API server passes SPDY in websockets on to the kubelet.
		made.server = made.listen(func(w http.ResponseWriter, request *http.Request) {
			location := &url.URL{Scheme: "http", Host: behind.Listener.Addr().String(), Path: request.URL.Path}
			forwarding := upgrade.NewUpgradeAwareHandler(location, nil, false, true, made)
			proxy.NewTunnelingHandler(forwarding).ServeHTTP(w, request)
		})
	}
	t.Cleanup(func() {
		made.mu.Lock()
		names := []string{}
		for name := range made.pods {
			names = append(names, name)
		}
		made.mu.Unlock()
		for _, name := range names {
			made.kill(name)
		}
		made.server.Close()
		behind.Close()
		made.group.Stop()
		if err := made.group.Wait(); err != nil {
			t.Error(err)
		}
	})
	return made
}

func (c *cluster) listen(handler http.HandlerFunc) *httptest.Server {
	server := httptest.NewUnstartedServer(handler)
	server.Config.ConnState = func(connection net.Conn, state http.ConnState) {
		if state == http.StateHijacked {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.upgraded = append(c.upgraded, connection)
		}
	}
	server.Start()
	return server
}

// cut closes the connections to pods without a farewell, as an API server that crashes does.
func (c *cluster) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, connection := range c.upgraded {
		_ = connection.Close()
	}
	c.upgraded = nil
	for _, pod := range c.pods {
		pod.connections = nil
	}
}

// start starts a pod, and returns its place.
func (c *cluster) start(name string, handler http.Handler) container.Place {
	c.t.Helper()
	server := httptest.NewServer(handler)
	c.t.Cleanup(server.Close)
	return c.add(name, &pod{address: server.Listener.Addr().String()})
}

func (c *cluster) add(name string, made *pod) container.Place {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pods[name] = made
	return container.Place{Namespace: "ns", Pod: name, PodUID: types.UID(name)}
}

// kill removes a pod, and closes the connections to it.
func (c *cluster) kill(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, connection := range c.pods[name].connections {
		_ = connection.Close()
	}
	delete(c.pods, name)
}

// fail makes the requests to a pod fail, or succeed again.
func (c *cluster) fail(name, message string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pods[name].message = message
}

func (c *cluster) dialed() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.dials
}

// Error answers a request that the kubelet has refused.
func (c *cluster) Error(w http.ResponseWriter, _ *http.Request, err error) {
	http.Error(w, err.Error(), http.StatusBadGateway)
}

func (c *cluster) serve(w http.ResponseWriter, request *http.Request) {
	name := strings.TrimSuffix(strings.TrimPrefix(request.URL.Path, "/api/v1/namespaces/ns/pods/"), "/portforward")
	c.mu.Lock()
	to := c.pods[name]
	c.mu.Unlock()
	if to == nil || !httpstream.IsUpgradeRequest(request) || strings.EqualFold(request.Header.Get("Upgrade"), "websocket") {
		http.NotFound(w, request)
		return
	}
	if _, err := httpstream.Handshake(request, w, []string{portforward.PortForwardProtocolV1Name}); err != nil {
		c.t.Error(err)
		return
	}
	var mu sync.Mutex
	problems := map[string]httpstream.Stream{}
	connection := spdy.NewResponseUpgrader().UpgradeResponse(w, request, func(stream httpstream.Stream, _ <-chan struct{}) error {
		mu.Lock()
		defer mu.Unlock()
		number := stream.Headers().Get(corev1.PortForwardRequestIDHeader)
		if stream.Headers().Get(corev1.StreamType) == corev1.StreamTypeError {
			problems[number] = stream
			return nil
		}
		problem := problems[number]
		delete(problems, number)
		if problem == nil {
			return errors.New("a data stream without an error stream")
		}
		c.group.Go("request", func(context.Context) error { c.request(to, stream, problem); return nil })
		return nil
	})
	if connection == nil {
		return
	}
	c.mu.Lock()
	c.dials++
	to.connections = append(to.connections, connection)
	c.mu.Unlock()
	<-connection.CloseChan()
}

// request connects a stream with the server of a pod.
func (c *cluster) request(to *pod, stream, problem httpstream.Stream) {
	defer func() { _ = problem.Close(); _ = stream.Close(); _ = stream.Reset() }()
	c.mu.Lock()
	message := to.message
	c.mu.Unlock()
	if message != "" {
		_, _ = fmt.Fprint(problem, message)
		return
	}
	inner, err := net.Dial("tcp", to.address)
	if err != nil {
		_, _ = fmt.Fprint(problem, err)
		return
	}
	defer func() { _ = inner.Close() }()
	c.group.Go("sent", func(context.Context) error {
		_, _ = io.Copy(inner, stream) // One of them ends.
		_ = inner.(*net.TCPConn).CloseWrite()
		return nil
	})
	_, _ = io.Copy(stream, inner)
}

func (c *cluster) config() *rest.Config { return &rest.Config{Host: c.server.URL} }

// run runs Forwards until the test has ended, or until stop is called.
func (c *cluster) run(adjust func(*Forwards)) (made *Forwards, stop func()) {
	c.t.Helper()
	made, err := New(c.config(), Options{Logger: slog.New(slog.NewTextHandler(c.t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))})
	if err != nil {
		c.t.Fatal(err)
	}
	if adjust != nil {
		adjust(made)
	}
	group := lifecycle.New(c.t.Context())
	group.Go("forwards", made.Run)
	stop = sync.OnceFunc(func() {
		group.Stop()
		if err := group.Wait(); err != nil {
			c.t.Error(err)
		}
	})
	c.t.Cleanup(stop)
	return made, stop
}

// until waits until a condition holds.
func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !holds(); <-time.After(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within 20 s: %s", what)
		}
	}
}

// bound waits until a number of ports is bound.
func bound(t *testing.T, forwards *Forwards, count int) []contract.Port {
	t.Helper()
	until(t, fmt.Sprintf("%d ports are bound", count), func() bool { return len(forwards.Bound()) == count })
	return forwards.Bound()
}
