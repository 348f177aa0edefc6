package connection_test

import (
	"context"
	"encoding/pem"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/bellerophon-io/bellerophon/bench/connection"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// The requests in flight are more than client-go would keep connections for.
func TestEachHTTP1RequestInFlightHasAConnectionThatIsUsedAgain(t *testing.T) {
	const inFlight = 40
	var others, dialed atomic.Int64
	var arrived sync.WaitGroup
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor != 1 {
			others.Add(1)
		}
		arrived.Done()
		arrived.Wait() // All are in flight.
		w.WriteHeader(http.StatusNotFound)
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	config := &rest.Config{Host: server.URL, Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
		dialed.Add(1)
		return (&net.Dialer{}).DialContext(ctx, network, address)
	}}
	config.CAData = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	config, err := connection.HTTP1(config)
	if err != nil {
		t.Fatal(err)
	}
	made, err := connection.New(config)
	if err != nil {
		t.Fatal(err)
	}
	defer made.Close()
	for range 2 {
		arrived.Add(inFlight)
		group := lifecycle.New(t.Context())
		for range inFlight {
			group.Go("get", func(ctx context.Context) error {
				_, err := made.Core().CoreV1().ConfigMaps("default").Get(ctx, "pegasus", metav1.GetOptions{})
				if err == nil {
					t.Error("the ConfigMap is found")
				}
				return nil
			})
		}
		if err := group.Wait(); err != nil {
			t.Fatal(err)
		}
	}
	if others.Load() > 0 || dialed.Load() != inFlight {
		t.Errorf("%d requests used another protocol, and %d connections were dialed; want 0 and %d", others.Load(), dialed.Load(), inFlight)
	}
}
