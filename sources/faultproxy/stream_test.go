package faultproxy_test

import (
	"context"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/sources/faultproxy"
)

const watching = configMaps + "?watch=true"

// opened opens a watch through a proxy.
func opened(t *testing.T, client *client, path string) *reader {
	t.Helper()
	answer, err := client.do(t.Context(), http.MethodGet, path)
	must(t, err)
	return readAll(t, answer.Body)
}

func TestPiecesOfAWatchPassAtOnceAndTheServerLearnsThatTheClientLeft(t *testing.T) {
	lines, ended := make(chan string), make(chan struct{}, 1)
	_, client := in(t, streaming(lines, ended))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	answer, err := client.do(ctx, http.MethodGet, watching)
	must(t, err)
	seen := readAll(t, answer.Body)
	for _, line := range []string{"one", "two"} {
		lines <- line
		seen.want(t, line)
	}
	cancel()
	select {
	case <-ended:
	case <-time.After(long):
		t.Error("the server still serves the watch")
	}
}

func TestOpenStreamsThatMatchAreCut(t *testing.T) {
	lines, ended := make(chan string), make(chan struct{}, 3)
	proxy, client := in(t, streaming(lines, ended))
	seen := opened(t, client, watching)
	other := opened(t, client, "/api/v1/secrets?watch=true")
	if struck := proxy.Cut(faultproxy.Match{Verb: "watch", Resource: "configmaps"}); struck != 1 {
		t.Errorf("%d streams were cut, want 1", struck)
	}
	seen.wantEnd(t)
	<-ended
	lines <- "still there"
	other.want(t, "still there")
	if counts := proxy.Counts(); counts.Faults[faultproxy.Cut] != 1 {
		t.Errorf("counted %v", counts)
	}
}

func TestAStalledStreamBringsNothingWhileOthersOfItsConnectionGoOn(t *testing.T) {
	t.Run("from its start", func(t *testing.T) {
		lines := make(chan string)
		proxy, client := in(t, streaming(lines, make(chan struct{}, 3)))
		must(t, proxy.Inject(faultproxy.Fault{Action: faultproxy.Stall, Bytes: 2}))
		seen := opened(t, client, watching)
		lines <- "one"
		seen.want(t, "on")
		seen.wantNothing(t)
		if _, body, err := client.read(http.MethodGet, configMaps); err != nil || body != "answer to GET" {
			t.Errorf("another request: %q, %v", body, err)
		}
		if open := proxy.Counts().Connections; open != 1 {
			t.Errorf("there are %d connections, want one for both", open)
		}
	})
	t.Run("while it is open", func(t *testing.T) {
		lines := make(chan string)
		proxy, client := in(t, streaming(lines, make(chan struct{}, 3)))
		seen := opened(t, client, watching)
		lines <- "one"
		seen.want(t, "one")
		if struck := proxy.Stall(faultproxy.Match{}); struck != 1 || proxy.Stall(faultproxy.Match{}) != 0 {
			t.Errorf("%d streams were stalled, want 1, once", struck)
		}
		lines <- "two"
		proxy.Heal() // A stalled stream stays stalled.
		seen.wantNothing(t)
		if counts := proxy.Counts(); counts.Faults[faultproxy.Stall] != 1 || counts.Streams != 1 {
			t.Errorf("counted %v", counts)
		}
	})
}

func TestACloseEndsWhatHangs(t *testing.T) {
	proxy, client := in(t, streaming(nil, make(chan struct{}, 3)))
	must(t, proxy.Inject(faultproxy.Fault{Action: faultproxy.Stall}))
	seen := opened(t, client, watching)
	proxy.Freeze()
	must(t, proxy.Close())
	must(t, proxy.Close())
	seen.wantEnd(t)
	if counts := proxy.Counts(); counts.Streams != 0 || counts.Connections != 0 {
		t.Errorf("the remaining counts are %v", counts)
	}
}

func TestAFrozenProxyHoldsUpAllBytesUntilItThaws(t *testing.T) {
	lines := make(chan string)
	proxy, client := in(t, streaming(lines, make(chan struct{}, 3)))
	seen := opened(t, client, watching)
	proxy.Freeze()
	proxy.Freeze() // A second Freeze changes nothing.
	lines <- "one"
	seen.wantNothing(t)
	hangs(t, func(ctx context.Context) error { _, err := client.do(ctx, http.MethodGet, configMaps); return err })
	fresh := newClient(t, proxy) // The new connection hangs in the handshake.
	hangs(t, func(ctx context.Context) error { _, err := fresh.do(ctx, http.MethodGet, configMaps); return err })
	fresh.transport.CloseIdleConnections()
	if passed := proxy.Counts().Requests["list configmaps"]; passed != 0 {
		t.Errorf("%d requests came in while the connections were frozen", passed)
	}
	proxy.Thaw()
	proxy.Thaw()
	seen.want(t, "one")
	if _, _, err := client.read(http.MethodGet, configMaps); err != nil {
		t.Errorf("after the thaw: %v", err)
	}
}

func TestADropResetsAllConnectionsEvenFrozenOnes(t *testing.T) {
	proxy, client := in(t, streaming(nil, make(chan struct{}, 3)))
	seen := opened(t, client, watching)
	proxy.Freeze()
	if dropped := proxy.Drop(); dropped != 1 {
		t.Errorf("%d connections were dropped, want 1", dropped)
	}
	seen.wantEnd(t)
	proxy.Thaw()
	if _, _, err := client.read(http.MethodGet, configMaps); err != nil {
		t.Errorf("on a new connection: %v", err)
	}
}

func TestAConnectionThatGoesAwayKeepsItsStreamsAndTakesNoMore(t *testing.T) {
	lines := make(chan string)
	proxy, client := in(t, streaming(lines, make(chan struct{}, 3)))
	seen := opened(t, client, watching)
	must(t, proxy.Inject(faultproxy.Fault{Action: faultproxy.GoAway}))
	for range 2 {
		if _, _, err := client.read(http.MethodGet, configMaps); err != nil {
			t.Error(err)
		}
	}
	lines <- "one"
	seen.want(t, "one")
	if open := proxy.Counts().Connections; open != 2 {
		t.Errorf("there are %d connections, want the old one and a new one", open)
	}
}

// A client has to see a failure of the network, not an answer from a proxy.
func TestAServerThatIsGoneIsNoAnswer(t *testing.T) {
	proxy, client := in(t, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	if answer, _, err := client.read(http.MethodGet, configMaps); err == nil {
		t.Errorf("the answer is %s", answer.Status)
	}
	if struck := len(proxy.Counts().Faults); struck != 0 {
		t.Errorf("%d faults were counted", struck)
	}
}

func TestAWatchThatExpiredEndsAndIsRefusedOnceWhenItContinuesFromAVersion(t *testing.T) {
	lines, ended := make(chan string), make(chan struct{}, 8)
	proxy, client := in(t, streaming(lines, ended))
	var answers []*http.Response
	for _, query := range []string{"&resourceVersion=7", "&labelSelector=a%3Db", "&labelSelector=d"} {
		answer, err := client.do(t.Context(), http.MethodGet, watching+query)
		must(t, err)
		answers = append(answers, answer)
	}
	if struck := proxy.Expire(faultproxy.Match{Verb: "watch"}); struck != 3 {
		t.Errorf("%d watches expired, want 3", struck)
	}
	for _, answer := range answers {
		if _, err := io.ReadAll(answer.Body); err != nil {
			t.Errorf("a watch that expired ends with %v, want an ordinary end", err)
		}
		must(t, answer.Body.Close())
	}
	_, _, err := client.read(http.MethodGet, configMaps+"?labelSelector=d")
	must(t, err)
	for _, step := range []struct {
		query string
		code  int
	}{
		{"&sendInitialEvents=true&resourceVersion=7", http.StatusOK}, // A streamed list.
		{"", http.StatusOK},
		{"&labelSelector=c&resourceVersion=7", http.StatusOK}, // Another watch.
		{"&resourceVersion=8", http.StatusGone},
		{"&resourceVersion=8", http.StatusOK},
		{"&labelSelector=a%3Db&resourceVersion=8", http.StatusGone},
		{"&labelSelector=d&resourceVersion=8", http.StatusOK}, // It was listed before.
	} {
		ctx, cancel := context.WithCancel(t.Context())
		answer, err := client.do(ctx, http.MethodGet, watching+step.query)
		must(t, err)
		if answer.StatusCode != step.code {
			t.Errorf("a watch with %q is answered %d, want %d", step.query, answer.StatusCode, step.code)
		}
		cancel()
		_ = answer.Body.Close() // The context has ended.
	}
	if counts := proxy.Counts(); counts.Faults[faultproxy.Refuse] != 3 {
		t.Errorf("counted %v", counts)
	}
}
