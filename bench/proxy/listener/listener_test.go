package listener_test

import (
	"context"
	"net/http"
	"path/filepath"
	"testing"

	"github.com/bellerophon-io/bellerophon/bench/proxy/listener"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"go.uber.org/goleak"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestTheKubeconfigLeadsToTheListenerAndCloseWaitsForWhatIsServed(t *testing.T) {
	arrived, gone, over := make(chan *http.Request, 1), make(chan struct{}), false
	opened, err := listener.Open(func(_ http.ResponseWriter, r *http.Request) {
		arrived <- r
		<-r.Context().Done()
		<-gone // http.Server.Close does not wait for this.
		over = true
	})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := opened.WriteKubeconfig(path, "secret"); err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		t.Fatal(err)
	}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	defer client.CloseIdleConnections()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, config.Host+"/apis/apps/v1/namespaces/n/statefulsets/a", nil)
	if err != nil {
		t.Fatal(err)
	}
	group := lifecycle.New(t.Context())
	group.Go("call", func(context.Context) error {
		defer close(gone)
		if response, err := client.Do(request); err == nil {
			return response.Body.Close()
		}
		return nil // The listener was closed.
	})
	came := <-arrived
	if token := came.Header.Get("Authorization"); token != "Bearer secret" || came.ProtoMajor != 2 {
		t.Errorf("a request came with %q by %s, want the token by HTTP/2", token, came.Proto)
	}
	if info, err := listener.InfoOf(came); err != nil || info.Verb != "get" || info.Resource != "statefulsets" || info.Name != "a" {
		t.Errorf("the request is about %+v: %v", info, err)
	}
	if open := opened.Connections(); open != 1 {
		t.Errorf("%d connections are open, want the one of the request", open)
	}
	if err := opened.Close(); err != nil {
		t.Error(err)
	}
	if open := opened.Connections(); open != 0 {
		t.Errorf("%d connections are open after Close", open)
	}
	if !over {
		t.Error("Close returned while a request was served")
	}
	if err := group.Wait(); err != nil {
		t.Error(err)
	}
}
