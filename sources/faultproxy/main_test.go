package faultproxy_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/internal/localcluster/clustertest"
	"github.com/bellerophon-io/bellerophon/sources/faultproxy"
	"k8s.io/client-go/rest"
)

func TestMain(m *testing.M) { clustertest.Main(m) }

// long bounds the wait for an event that has to happen, short the wait for one that must not.
const (
	long  = 20 * time.Second
	short = 200 * time.Millisecond
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// in starts a proxy in front of a test server, and creates a client of the proxy.
func in(t *testing.T, handler http.HandlerFunc) (*faultproxy.Proxy, *client) {
	t.Helper()
	server := httptest.NewUnstartedServer(handler)
	server.EnableHTTP2 = true
	server.StartTLS()
	proxy, err := faultproxy.New(&rest.Config{Host: server.URL, TLSClientConfig: rest.TLSClientConfig{Insecure: true}})
	must(t, err)
	made := newClient(t, proxy)
	t.Cleanup(func() {
		made.transport.CloseIdleConnections()
		must(t, proxy.Close())
		server.Close()
	})
	return proxy, made
}

// client is an HTTP/2 client of a proxy, with connections of its own.
type client struct {
	t         *testing.T
	config    *rest.Config
	transport *http.Transport
}

func newClient(t *testing.T, proxy *faultproxy.Proxy) *client {
	t.Helper()
	config := proxy.Config()
	security, err := rest.TLSConfigFor(config)
	must(t, err)
	return &client{t, config, &http.Transport{TLSClientConfig: security, ForceAttemptHTTP2: true, DisableCompression: true}}
}

// do sends a request that ends with the context or with the test.
func (c *client) do(ctx context.Context, method, path string) (*http.Response, error) {
	c.t.Helper()
	request, err := http.NewRequestWithContext(ctx, method, c.config.Host+path, nil)
	must(c.t, err)
	request.Header.Set("Authorization", "Bearer "+c.config.BearerToken)
	return c.transport.RoundTrip(request)
}

// read sends a request and reads its answer.
func (c *client) read(method, path string) (*http.Response, string, error) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), long)
	defer cancel()
	answer, err := c.do(ctx, method, path)
	if err != nil {
		return nil, "", err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	return answer, string(body), err
}

// hangs fails the test if a call returns within a short time. It then ends the call and waits until
// it returns.
func hangs(t *testing.T, call func(ctx context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), short)
	defer cancel()
	if err := call(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the call returned %v, want it to hang", err)
	}
}

// streaming serves a watch that sends the lines from a channel, and ends with the client.
func streaming(lines <-chan string, ended chan<- struct{}) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("watch") == "" {
			_, _ = io.WriteString(w, "answer to "+r.Method)
			return
		}
		_ = http.NewResponseController(w).Flush()
		for {
			select {
			case line := <-lines:
				_, _ = io.WriteString(w, line)
				_ = http.NewResponseController(w).Flush()
			case <-r.Context().Done():
				ended <- struct{}{}
				return
			}
		}
	}
}

// reader reads a body in the background.
type reader struct {
	pieces chan string
	end    chan error
	group  *lifecycle.Group
}

func readAll(t *testing.T, body io.ReadCloser) *reader {
	made := &reader{pieces: make(chan string, 100), end: make(chan error, 1), group: lifecycle.New(t.Context())}
	made.group.Go("reader", func(context.Context) error {
		buffer := make([]byte, 1024)
		for {
			n, err := body.Read(buffer)
			if n > 0 {
				made.pieces <- string(buffer[:n])
			}
			if err != nil {
				made.end <- err
				return nil
			}
		}
	})
	t.Cleanup(func() {
		_ = body.Close()
		must(t, made.group.Wait())
	})
	return made
}

// want fails the test unless a piece comes.
func (r *reader) want(t *testing.T, want string) {
	t.Helper()
	select {
	case got := <-r.pieces:
		if got != want {
			t.Errorf("the stream sent %q, want %q", got, want)
		}
	case err := <-r.end:
		t.Fatalf("the stream ended with %v, want %q", err, want)
	case <-time.After(long):
		t.Fatalf("the stream sent nothing, want %q", want)
	}
}

// wantEnd fails the test unless the stream ends with an error.
func (r *reader) wantEnd(t *testing.T) {
	t.Helper()
	select {
	case got := <-r.pieces:
		t.Errorf("the stream sent %q, want its end", got)
	case err := <-r.end:
		if errors.Is(err, io.EOF) {
			t.Error("the stream ended as if it were complete")
		}
	case <-time.After(long):
		t.Fatal("the stream continues, want its end")
	}
}

// wantNothing fails the test if anything comes within a short time.
func (r *reader) wantNothing(t *testing.T) {
	t.Helper()
	select {
	case got := <-r.pieces:
		t.Errorf("the stream sent %q, want nothing", got)
	case err := <-r.end:
		t.Errorf("the stream ended with %v, want nothing", err)
	case <-time.After(short):
	}
}
