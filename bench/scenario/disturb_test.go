package scenario

import (
	"context"
	"maps"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/bench/proxy"
	"github.com/bellerophon-io/bellerophon/bench/rundir"
	"github.com/bellerophon-io/bellerophon/sources/faultproxy"
	"k8s.io/client-go/rest"
)

func TestARecoveryIsFromTheEndOfTheDisturbanceAndCountsWhatWasSentAndListed(t *testing.T) {
	list, later, write1 := proxy.Call{At: at(1200), Verb: "list", Resource: "services", Code: 200, Lists: true}, write(2500, "services", "a"), write(900, "services", "a")
	refused, page, streamed, old := list, list, list, list
	refused.Code, page.Lists, old.At = 503, false, at(-5)
	streamed.Verb, streamed.Resource, streamed.Code = "watch", "sheroes", 0
	events := list
	events.Resource = "events"
	record := proxy.Record{Calls: []proxy.Call{old, write1, list, refused, page, events, later}, Open: []proxy.Call{streamed}}
	measured := rundir.Measured{rundir.Converge: 2}
	addRecovery(measured, record, at(0), at(1500))
	want := rundir.Measured{
		rundir.Converge: 2, rundir.Disturbance: 1.5, rundir.Recovery: 0.5, rundir.RecoveryCalls: 5, rundir.Relists: 2,
		rundir.ServiceRelists: 1, rundir.HeroRelists: 1, rundir.SetRelists: 0, rundir.ConfigRelists: 0, rundir.PodRelists: 0,
	}
	if !maps.Equal(measured, want) {
		t.Errorf("measured %v, want %v", measured, want)
	}
	measured = rundir.Measured{rundir.Converge: 1}
	addRecovery(measured, record, at(0), at(1500))
	if measured[rundir.Recovery] != 0 || measured[rundir.RecoveryCalls] != 1 {
		t.Errorf("measured %v of objects that were repaired during the disturbance", measured)
	}
}

// disturbedWorld is a world whose fault proxy stands before a server that answers everything.
func disturbedWorld(t *testing.T) (*World, func(path string) *http.Response) {
	t.Helper()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).Flush()
		if r.URL.Query().Get("watch") != "" {
			<-r.Context().Done()
		}
	}))
	faults, err := faultproxy.New(&rest.Config{Host: server.URL, TLSClientConfig: rest.TLSClientConfig{Insecure: true}})
	if err != nil {
		t.Fatal(err)
	}
	client, err := rest.HTTPClientFor(faults.Config())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		client.CloseIdleConnections()
		if err := faults.Close(); err != nil {
			t.Error(err)
		}
		server.Close()
	})
	ask := func(path string) *http.Response {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, faults.Config().Host+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		return response
	}
	return &World{Faults: faults, Progress: func(string, int, int) {}}, ask
}

func TestADisturbanceRefusesTheContenderUntilItIsOver(t *testing.T) {
	const pods, watch = "/api/v1/pods", "/api/v1/pods?watch=true"
	for _, test := range []struct {
		name    string
		disturb disturbance
		code    int
		breaks  bool
	}{
		{"throttle", refusing(tooMany, false), http.StatusTooManyRequests, false},
		{"outage", refusing(unavailable, true), http.StatusServiceUnavailable, true},
	} {
		w, ask := disturbedWorld(t)
		watching := ask(watch)
		began, broken := time.Now(), make(chan error, 1)
		over, err := test.disturb(t.Context(), w, &window{from: began}, Variant{Seconds: 1}, func() error {
			refused := ask(pods)
			if refused.StatusCode != test.code || (refused.Header.Get("Retry-After") == "1") != (test.name == "throttle") {
				t.Errorf("%s: a request is answered %d with %v", test.name, refused.StatusCode, refused.Header)
			}
			if test.breaks {
				_, err := watching.Body.Read(make([]byte, 1))
				broken <- err
			}
			return refused.Body.Close()
		})
		if err != nil || over.Sub(began) < time.Second {
			t.Errorf("%s: over after %v: %v", test.name, over.Sub(began), err)
		}
		if test.breaks && <-broken == nil {
			t.Errorf("%s: the watch goes on", test.name)
		}
		if counts := w.Faults.Counts(); !test.breaks && counts.Streams != 1 {
			t.Errorf("%s: %d streams are open, want the watch", test.name, counts.Streams)
		}
		answered := ask(pods)
		if answered.StatusCode != http.StatusOK {
			t.Errorf("%s: a request is answered %d afterwards", test.name, answered.StatusCode)
		}
		_, _ = answered.Body.Close(), watching.Body.Close() // Some have ended already.
	}
}

func TestADisturbanceEndsWithItsContext(t *testing.T) {
	w, _ := disturbedWorld(t)
	ctx, cancel := context.WithCancel(t.Context())
	_, err := refusing(tooMany, false)(ctx, w, &window{from: time.Now()}, Variant{Seconds: 3600}, func() error { cancel(); return nil })
	if err == nil {
		t.Error("the disturbance ended without an error")
	}
}

func TestExpiredWatchesHaveToListAgain(t *testing.T) {
	w, ask := disturbedWorld(t)
	watching := ask("/api/v1/pods?watch=true&resourceVersion=1")
	drifted := false
	if _, err := expiring(t.Context(), w, nil, Variant{}, func() error { drifted = true; return nil }); err != nil || !drifted {
		t.Errorf("drifted: %v: %v", drifted, err)
	}
	again := ask("/api/v1/pods?watch=true&resourceVersion=2")
	if again.StatusCode != http.StatusGone {
		t.Errorf("the watch goes on with code %d, want 410", again.StatusCode)
	}
	_, _ = again.Body.Close(), watching.Body.Close() // The second has ended.
}
