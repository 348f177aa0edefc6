package controller_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/bellerophon-io/bellerophon/cache"
	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
)

// ask returns the answer to a GET request.
func ask(ctx context.Context, url string) (code int, said string, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, "", err
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := client.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = answer.Body.Close() }()
	content, err := io.ReadAll(answer.Body)
	return answer.StatusCode, string(content), err
}

func TestHealthAndMetricsAreServedUntilTheEnd(t *testing.T) {
	lists := make(chan struct{}) // closed when lists may be answered
	listening := make(chan string, 3)
	m := manager(t, func(request *http.Request) *http.Response {
		select {
		case <-lists:
			return onePod(request)
		case <-request.Context().Done():
			return nil
		}
	}, controller.Options{
		MetricsAddress: "127.0.0.1:0", HealthAddress: "127.0.0.1:0", ProfileAddress: "127.0.0.1:0",
		OnListen: func(server string, address net.Addr) { listening <- server + " http://" + address.String() },
	})
	add(t, m, nothing)
	group := lifecycle.New(t.Context())
	group.Go("manager", m.Run)
	addresses := map[string]string{}
	for range 3 {
		server, address, _ := strings.Cut(<-listening, " server ")
		addresses[server] = address
	}
	check := func(url string, code int, says string) {
		t.Helper()
		got, said, err := ask(t.Context(), url)
		if err != nil || got != code || !strings.Contains(said, says) {
			t.Errorf("%s answers %d %q, want %d %q: %v", url, got, said, code, says, err)
		}
	}
	check(addresses["health"]+"/healthz", http.StatusOK, "ok")
	check(addresses["health"]+"/readyz", http.StatusServiceUnavailable, "not ready: waiting for the first list of Pod")
	check(addresses["metrics"]+"/metrics", http.StatusOK, "bellerophon_sync_level 0\n")
	check(addresses["profile"]+"/debug/pprof/goroutine?debug=1", http.StatusOK, "controller.(*Manager).Run")
	close(lists)
	if err := m.Cache().Wait(t.Context(), cache.Settled); err != nil {
		t.Fatal(err)
	}
	check(addresses["health"]+"/readyz", http.StatusOK, fmt.Sprintln("ok:", cache.Converged))
	check(addresses["health"]+"/readyz?level=Settled", http.StatusOK, fmt.Sprintln("ok:", cache.Converged))
	check(addresses["health"]+"/readyz?level=Calm", http.StatusBadRequest, "allowed are Starting, Listed, Current, OwnWritesVisible, Settled, Converged")
	check(addresses["metrics"]+"/metrics", http.StatusOK, "bellerophon_sync_level 5\n")
	group.Stop()
	if err := group.Wait(); err != nil {
		t.Error(err)
	}
	if _, _, err := ask(t.Context(), addresses["health"]+"/healthz"); err == nil {
		t.Error("health is served after the end")
	}
}
