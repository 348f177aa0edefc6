package connections

import (
	"context"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"
)

// TestRequestsAtTheSameTimeAreSpreadOverAllConnections sends requests one after the other. No answer comes before the last
// one has arrived.
func TestRequestsAtTheSameTimeAreSpreadOverAllConnections(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	arrived, answer := make(chan string), make(chan struct{})
	client, url := clientOf(t, func(_ http.ResponseWriter, request *http.Request) {
		arrived <- request.RemoteAddr
		<-answer
	})
	var sending errgroup.Group
	over := map[string]int{}
	for range 2 * number {
		sending.Go(func() error { return get(ctx, client, url) })
		select {
		case from := <-arrived:
			over[from]++
		case <-ctx.Done():
			t.Fatal("a request did not arrive")
		}
	}
	close(answer)
	if err := sending.Wait(); err != nil {
		t.Fatal(err)
	}
	if len(over) != number {
		t.Errorf("%d requests used %d connections, want %d: %v", 2*number, len(over), number, over)
	}
	for from, count := range over {
		if count != 2 {
			t.Errorf("%d requests came from %s, want 2", count, from)
		}
	}
}

func TestRequestsOneAfterTheOtherUseOneConnection(t *testing.T) {
	over := make(chan string, 3)
	client, url := clientOf(t, func(_ http.ResponseWriter, request *http.Request) { over <- request.RemoteAddr })
	for range cap(over) {
		if err := get(t.Context(), client, url); err != nil {
			t.Fatal(err)
		}
	}
	first := <-over
	for range cap(over) - 1 {
		if next := <-over; next != first {
			t.Errorf("a request came from %s, and the first one from %s", next, first)
		}
	}
}

// clientOf returns a client of a server that speaks HTTP/2, as an API server does, and the address of the server.
func clientOf(t *testing.T, handler http.HandlerFunc) (client *http.Client, url string) {
	t.Helper()
	server := httptest.NewUnstartedServer(handler)
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	client, err := Client(&rest.Config{Host: server.URL, TLSClientConfig: rest.TLSClientConfig{CAData: authority}})
	if err != nil {
		t.Fatal(err)
	}
	return client, server.URL
}

// get sends a request and waits for its answer.
func get(ctx context.Context, client *http.Client, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return err
	}
	answer, err := client.Do(request)
	if err != nil {
		return err
	}
	return answer.Body.Close()
}
