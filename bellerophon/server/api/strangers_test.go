package api

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

func newAuthenticated(t *testing.T, count func(string, int, time.Duration)) *API {
	t.Helper()
	return New(t.Context(), Options{Authenticated: true, Metrics: http.NotFoundHandler(), Count: count})
}

// A client may send any word as a method, and each operation is a series of a metric.
func TestMethodsOfStrangersMakeNoSeries(t *testing.T) {
	counted := map[string]bool{}
	a := newAuthenticated(t, func(operation string, _ int, _ time.Duration) { counted[operation] = true })
	for i := range 100 {
		a.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), fmt.Sprint("M", i), keysPath+"a", http.NoBody))
	}
	a.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodPut, keysPath+"a", http.NoBody))
	if len(counted) != 2 || !counted["other "+keysPath] || !counted["PUT "+keysPath] {
		t.Errorf("100 methods made the operations %v", counted)
	}
}

// net/http reads a body before it answers, also where a request needs none.
func TestABodyThatNeverComesDoesNotHoldAConnection(t *testing.T) {
	server := httptest.NewServer(newAuthenticated(t, func(string, int, time.Duration) {}))
	t.Cleanup(server.Close)
	for _, request := range []string{"GET /metrics", "PUT /v1/keys/a", "POST /nowhere"} {
		t.Run(request, func(t *testing.T) {
			t.Parallel()
			connection, err := new(net.Dialer).DialContext(t.Context(), "tcp", server.Listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = connection.Close() }()
			if _, err := fmt.Fprintf(connection, "%s HTTP/1.1\r\nHost: member\r\nContent-Length: 1\r\n\r\n", request); err != nil {
				t.Fatal(err)
			}
			if err := connection.SetReadDeadline(time.Now().Add(4 * strangerTimeout)); err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadAll(connection); err != nil {
				t.Errorf("the connection is still held: %v", err)
			}
		})
	}
}
