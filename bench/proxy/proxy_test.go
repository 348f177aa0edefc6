package proxy

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/gobwas/ws"
	"github.com/gobwas/ws/wsutil"
	"go.uber.org/goleak"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a proxy between the client and the server of a test.
type world struct {
	proxy  *Proxy
	client *http.Client
	config *rest.Config
	direct *httptest.Server
}

func newWorld(t testing.TB, answer http.HandlerFunc) *world { return newWorldAt(t, 0, answer) }

// newWorldAt puts a network between the client and the proxy.
func newWorldAt(t testing.TB, roundTrip time.Duration, answer http.HandlerFunc) *world {
	t.Helper()
	server := httptest.NewUnstartedServer(answer)
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	proxy, err := New(&rest.Config{Host: server.URL, TLSClientConfig: rest.TLSClientConfig{CAData: authority}}, roundTrip)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := proxy.WriteKubeconfig(path, "secret"); err != nil {
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
	t.Cleanup(func() {
		client.CloseIdleConnections()
		if err := proxy.Close(); err != nil {
			t.Error(err)
		}
	})
	return &world{proxy: proxy, client: client, config: config, direct: server}
}

// ask sends a request and returns its answer, whose body the caller closes.
func (w *world) ask(t testing.TB, method, path, body string) *http.Response {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, w.config.Host+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	response, err := w.client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	return response
}

// do sends a request and returns the body of its answer.
func (w *world) do(t testing.TB, method, path, body string) string {
	t.Helper()
	response := w.ask(t, method, path, body)
	defer response.Body.Close()
	if response.ProtoMajor != 2 {
		t.Errorf("the proxy speaks %s, want HTTP/2", response.Proto)
	}
	content, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

func TestTheAPIServerIsSpokenToAsTheContenderSpeaks(t *testing.T) {
	for _, protocol := range []string{"h2", "http/1.1"} {
		var connections sync.Map
		w := newWorld(t, func(w http.ResponseWriter, r *http.Request) {
			connections.Store(r.RemoteAddr, true)
			fmt.Fprint(w, r.Proto)
		})
		config := rest.CopyConfig(w.config)
		config.NextProtos = []string{protocol}
		client, err := rest.HTTPClientFor(config)
		if err != nil {
			t.Fatal(err)
		}
		defer client.CloseIdleConnections()
		w.client = client
		for range 3 {
			response := w.ask(t, http.MethodGet, "/api/v1/pods", "")
			came, err := io.ReadAll(response.Body)
			if err != nil {
				t.Fatal(err)
			}
			if response.Body.Close() != nil || string(came) != response.Proto {
				t.Errorf("by %s: the contender spoke %s and the proxy %s", protocol, response.Proto, came)
			}
		}
		count := 0
		connections.Range(func(any, any) bool { count++; return true })
		if count != 1 {
			t.Errorf("by %s: three requests in turn took %d connections, want 1", protocol, count)
		}
	}
}

func TestTheProxyHasAsManyConnectionsAsTheContender(t *testing.T) {
	var connections sync.Map
	w := newWorld(t, func(w http.ResponseWriter, r *http.Request) {
		connections.Store(r.RemoteAddr, true)
		fmt.Fprint(w, r.Proto)
	})
	const own = 3
	for range own {
		config := rest.CopyConfig(w.config)
		config.Dial = new(net.Dialer).DialContext // Otherwise the clients would share a transport.
		client, err := rest.HTTPClientFor(config)
		if err != nil {
			t.Fatal(err)
		}
		defer client.CloseIdleConnections()
		w.client = client
		for range 2 {
			if came := w.do(t, http.MethodGet, "/api/v1/pods", ""); came != "HTTP/2.0" {
				t.Errorf("the proxy speaks %s", came)
			}
		}
	}
	count := 0
	connections.Range(func(any, any) bool { count++; return true })
	if count != own {
		t.Errorf("%d connections of the contender became %d", own, count)
	}
}

// object returns the JSON of an object.
func object(name string, version, generation int) string {
	return fmt.Sprintf(`{"metadata":{"name":%q,"namespace":"n","resourceVersion":"%d","generation":%d},"spec":{"metadata":{"name":"other"}}}`, name, version, generation)
}

const heroes = "/apis/stable.simple-bellerophon.io/v1/namespaces/n/sheroes"

func TestACallIsRecordedAndPassedOnUnchanged(t *testing.T) {
	w := newWorld(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, `{"metadata":{"resourceVersion":"7"},"got":"%s %s %s %s"}`, r.Proto, r.Method, r.Header.Get("Authorization"), body)
	})
	before := time.Now()
	answer := w.do(t, http.MethodPost, "/api/v1/namespaces/n/configmaps", `{"metadata":{"name":"a"}}`)
	if want := `{"metadata":{"resourceVersion":"7"},"got":"HTTP/2.0 POST Bearer secret {"metadata":{"name":"a"}}"}`; answer != want {
		t.Errorf("the answer is %s, want %s", answer, want)
	}
	calls := w.ended(t, 1)
	got := calls[0]
	if got.At.Before(before) || got.End.Before(got.At) {
		t.Errorf("it came at %v and ended at %v", got.At, got.End)
	}
	got.At, got.End = time.Time{}, time.Time{}
	if want := (Call{Verb: "create", Resource: "configmaps", Namespace: "n", Name: "a", Code: 201, In: 25, Out: int64(len(answer)), Version: 7}); got != want {
		t.Errorf("recorded %+v, want %+v", got, want)
	}
	if !got.IsWrite() || got.IsRead() || got.IsWatch() {
		t.Error("a creation is not a write")
	}
}

func TestAReactionOverANetworkTakesARoundTripMore(t *testing.T) {
	const roundTrip = 30 * time.Millisecond
	event := make(chan bool)
	w := newWorldAt(t, roundTrip, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("watch") == "" {
			return
		}
		w.(http.Flusher).Flush()
		<-event
		fmt.Fprintf(w, `{"type":"ADDED","object":%s}`+"\n", object("a", 5, 1))
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	})
	watch := w.ask(t, http.MethodGet, heroes+"?watch=true", "")
	defer watch.Body.Close()
	event <- true
	if _, err := watch.Body.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	w.do(t, http.MethodPatch, heroes+"/a", "{}")
	call, events := w.ended(t, 1)[0], w.proxy.Record().Events
	if len(events) != 1 {
		t.Fatalf("there are %d events", len(events))
	}
	// The event and the request are stamped at the server's end, each half a round trip away.
	if took := call.At.Sub(events[0].At); took < roundTrip {
		t.Errorf("the reaction took %v, want a round trip of %v or more", took, roundTrip)
	}
}

func TestAProxyWithARoundTripThatIsTooLongIsRefusedAndLeavesNothing(t *testing.T) {
	if _, err := New(&rest.Config{Host: "https://127.0.0.1:1"}, 2*time.Second); err == nil || !strings.Contains(err.Error(), "allowed is above 0 to 1s") {
		t.Errorf("the error is %v", err)
	}
}

// ended waits until n calls are recorded. The client may have its answer before the proxy has
// recorded the call.
func (w *world) ended(t *testing.T, n int) []Call {
	t.Helper()
	ticker := time.NewTicker(time.Millisecond)
	defer ticker.Stop()
	for {
		if calls := w.proxy.Record().Calls; len(calls) >= n {
			return calls
		}
		select {
		case <-ticker.C:
		case <-t.Context().Done():
			t.Fatal("the calls do not end")
		}
	}
}

func TestAWriteIsNeedlessIfItsAnswerHasAVersionThatWasThereBefore(t *testing.T) {
	var version int
	w := newWorld(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		fmt.Fprint(w, object("a", version, 1))
	})
	for i, test := range []struct {
		version int
		query   string
		want    bool
	}{{5, "", false}, {6, "", false}, {6, "", true}, {5, "", true}, {9, "?resourceVersion=9", true}, {10, "", false}} {
		version = test.version
		w.do(t, http.MethodPatch, heroes+"/a"+test.query, `{"spec":{}}`)
		if got := w.ended(t, i+1)[i]; got.Needless != test.want {
			t.Errorf("write %d, answered with version %d: needless %v, want %v", i, test.version, got.Needless, test.want)
		}
	}
	w.proxy.Saw(11)
	version = 11
	w.do(t, http.MethodPatch, heroes+"/a", `{}`)
	if got := w.ended(t, 7)[6]; !got.Needless {
		t.Error("a write is not needless, though another client saw its version before")
	}
	version = 11
	w.do(t, http.MethodDelete, heroes+"/a", ``)
	if got := w.ended(t, 8)[7]; got.Needless {
		t.Error("a deletion is needless")
	}
}

func TestEventsOfAWatchAreStampedBeforeTheyReachTheClient(t *testing.T) {
	next := make(chan string)
	w := newWorld(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.(http.Flusher).Flush()
		for piece := range next {
			fmt.Fprint(w, piece)
			w.(http.Flusher).Flush()
		}
	})
	response := w.ask(t, http.MethodGet, heroes+"?watch=true&resourceVersion=3", "")
	defer response.Body.Close()
	if !w.proxy.IsWatched("sheroes") || w.proxy.IsWatched("configmaps") {
		t.Error("IsWatched is wrong: only sheroes are watched")
	}
	if open := w.proxy.Record().Open; len(open) != 1 || open[0].Group != "stable.simple-bellerophon.io" || open[0].Resource != "sheroes" || open[0].At.IsZero() {
		t.Errorf("the watches that are open are recorded as %+v", open)
	}
	first := `{"type":"ADDED","object":` + object("a", 4, 1) + "}\n"
	next <- first
	received := make([]byte, len(first))
	if _, err := io.ReadFull(response.Body, received); err != nil || string(received) != first {
		t.Fatalf("received %q: %v", received, err)
	}
	arrived := time.Now()
	second := `{"type":"MODIFIED","object":` + object("b", 5, 2) + "}\n"
	next <- second[:20]
	next <- second[20:] + first + first[:5]
	close(next)
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		t.Fatal(err)
	}
	call := w.ended(t, 1)[0]
	if !call.IsWatch() || call.IsRead() || call.IsWrite() || w.proxy.IsWatched("sheroes") {
		t.Errorf("the watch is recorded as %+v", call)
	}
	if open := w.proxy.Record().Open; len(open) != 0 {
		t.Errorf("the watch has ended, but is recorded as open: %+v", open)
	}
	events := w.proxy.Record().Events
	if len(events) != 3 {
		t.Fatalf("recorded %d events, want 3", len(events))
	}
	if at := events[0].At; at.After(arrived) || at.Before(call.At) {
		t.Errorf("the first event is stamped %v, want a time between the call, %v, and the arrival, %v", at, call.At, arrived)
	}
	if at := events[1].At; at.Before(arrived) {
		t.Errorf("the second event is stamped %v, want a time after the arrival of the first", at)
	}
	second2 := events[1]
	second2.At = time.Time{}
	if want := (Event{Type: "MODIFIED", Group: "stable.simple-bellerophon.io", Resource: "sheroes", Namespace: "n", Name: "b", Version: 5, Generation: 2, Bytes: int64(len(second))}); second2 != want {
		t.Errorf("recorded %+v, want %+v", second2, want)
	}
}

func TestEventsAreReadFromProtobuf(t *testing.T) {
	w := newWorld(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/vnd.kubernetes.protobuf;stream=watch")
		encoded := protobufEvent(t, "a", "12")
		size := binary.BigEndian.AppendUint32(nil, uint32(len(encoded)))
		_, _ = w.Write(append(append(size, encoded...), 0, 0))
	})
	w.do(t, http.MethodGet, "/apis/apps/v1/statefulsets?watch=1", "")
	w.ended(t, 1)
	events := w.proxy.Record().Events
	if len(events) != 1 || events[0].Name != "a" || events[0].Namespace != "n" || events[0].Version != 12 || events[0].Generation != 3 || events[0].Type != "ADDED" {
		t.Errorf("recorded %+v", events)
	}
}

func protobufEvent(t testing.TB, name, version string) []byte {
	t.Helper()
	encoded, err := (&metav1.WatchEvent{Type: "ADDED", Object: runtime.RawExtension{Raw: protobufObject(t, name, version)}}).Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return encoded
}

func protobufObject(t testing.TB, name, version string) []byte {
	t.Helper()
	partial := metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "n", ResourceVersion: version, Generation: 3}}
	raw, err := partial.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	envelope, err := (&runtime.Unknown{TypeMeta: runtime.TypeMeta{Kind: "StatefulSet"}, Raw: raw}).Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return append(bytes.Clone(protobufMagic), envelope...)
}

func TestACreationInProtobufIsNamed(t *testing.T) {
	w := newWorld(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(w, r.Body)
	})
	w.do(t, http.MethodPost, "/apis/apps/v1/namespaces/n/statefulsets", string(protobufObject(t, "a", "8")))
	if got := w.ended(t, 1)[0]; got.Name != "a" || got.Version != 8 || got.Resource != "statefulsets" || got.Group != "apps" {
		t.Errorf("recorded %+v", got)
	}
}

func TestEventsAreReadFromAWebSocket(t *testing.T) {
	event := `{"type":"ADDED","object":` + object(strings.Repeat("a", 200), 4, 1) + "}"
	w := newWorld(t, func(w http.ResponseWriter, r *http.Request) {
		connection, _, _, err := ws.UpgradeHTTP(r, w)
		if err != nil {
			t.Error(err)
			return
		}
		defer connection.Close()
		defer func() { _, _ = io.Copy(io.Discard, connection) }() // The connection stays open until the client closes it.
		for _, message := range []string{event, "", event} {
			if err := wsutil.WriteServerText(connection, []byte(message)); err != nil {
				t.Error(err)
			}
			if err := wsutil.WriteServerMessage(connection, ws.OpPing, nil); err != nil {
				t.Error(err)
			}
		}
	})
	tlsConfig, err := rest.TLSConfigFor(w.config)
	if err != nil {
		t.Fatal(err)
	}
	dialer := ws.Dialer{TLSConfig: tlsConfig}
	connection, reader, _, err := dialer.Dial(t.Context(), strings.Replace(w.config.Host, "https", "wss", 1)+heroes+"?watch=true")
	if err != nil {
		t.Fatal(err)
	}
	var source io.Reader = connection
	if reader != nil {
		source = reader
	}
	message, err := wsutil.ReadServerText(struct {
		io.Reader
		io.Writer
	}{source, connection})
	if err != nil || string(message) != event {
		t.Errorf("received %q: %v", message, err)
	}
	if _, err := io.ReadFull(source, make([]byte, len(event))); err != nil { // So many bytes include the last event.
		t.Error(err)
	}
	// The watch ends when the contender closes its half.
	if err := connection.(*tls.Conn).CloseWrite(); err != nil {
		t.Error(err)
	}
	w.ended(t, 1)
	if err := connection.Close(); err != nil {
		t.Error(err)
	}
	events := w.proxy.Record().Events
	if len(events) != 2 || len(events[1].Name) != 200 || events[1].Version != 4 {
		t.Errorf("recorded %+v, want two events", events)
	}
}

func TestTheContenderIsNotIdleWhileItWaitsForAnAnswer(t *testing.T) {
	answer := make(chan struct{})
	w := newWorld(t, func(http.ResponseWriter, *http.Request) { <-answer })
	before := w.proxy.IdleSince()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.config.Host+heroes+"/a", nil)
	if err != nil {
		t.Fatal(err)
	}
	group := lifecycle.New(t.Context())
	group.Go("call", func(context.Context) error {
		response, err := w.client.Do(request)
		if err != nil {
			return err
		}
		return response.Body.Close()
	})
	ticker := time.NewTicker(time.Millisecond)
	defer ticker.Stop()
	for !w.proxy.IdleSince().After(before) {
		<-ticker.C
	}
	first := w.proxy.IdleSince()
	<-ticker.C
	if !w.proxy.IdleSince().After(first) {
		t.Error("the contender is idle while a call is in flight")
	}
	close(answer)
	if err := group.Wait(); err != nil {
		t.Error(err)
	}
	w.ended(t, 1)
	first = w.proxy.IdleSince()
	<-ticker.C
	if w.proxy.IdleSince() != first {
		t.Error("the contender is not idle after the call")
	}
}

func TestEventsOfALeaseDoNotKeepAContenderFromBeingIdle(t *testing.T) {
	r := newRecorder()
	start, lease := r.idleSince(), Event{At: time.Now().Add(time.Second), Type: "MODIFIED", Group: "coordination.k8s.io", Resource: "leases"}
	r.events([]Event{lease})
	if got := r.idleSince(); !got.Equal(start) || r.counted().Events != 0 {
		t.Errorf("idle since %v with %d events, want since the start and none", got.Sub(start), r.counted().Events)
	}
	hero := lease
	hero.Group, hero.Resource = "stable.simple-bellerophon.io", "sheroes"
	r.events([]Event{hero})
	if got := r.idleSince(); !got.Equal(hero.At) || r.counted().Events != 1 {
		t.Errorf("idle since %v with %d events, want since the event and one", got.Sub(start), r.counted().Events)
	}
}

func TestTheRecordIsWrittenAsLines(t *testing.T) {
	path := filepath.Join(t.TempDir(), "proxy.jsonl")
	record := Record{Calls: []Call{{Verb: "get", Resource: "sheroes"}}, Events: []Event{{Type: "ADDED", Resource: "sheroes"}}}
	if err := record.WriteFile(path); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(path)
	lines := strings.Split(strings.TrimSpace(string(content)), "\n")
	if err != nil || len(lines) != 2 || !strings.HasPrefix(lines[0], `{"call":{`) || !strings.HasPrefix(lines[1], `{"event":{`) {
		t.Errorf("wrote %s: %v", content, err)
	}
}

func BenchmarkAnAnswer(b *testing.B) {
	w := newWorld(b, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		fmt.Fprint(w, object("a", 5, 1))
	})
	body := object("a", 0, 0) + strings.Repeat(" ", 2000)
	b.Run("proxied", func(b *testing.B) {
		defer reportCPU(b)()
		for b.Loop() {
			w.do(b, http.MethodPatch, heroes+"/a", body)
		}
	})
	b.Run("direct", func(b *testing.B) {
		config := *w.config
		config.Host = w.direct.URL
		direct := &world{config: &config, client: w.direct.Client()}
		defer reportCPU(b)()
		for b.Loop() {
			direct.do(b, http.MethodPatch, heroes+"/a", body)
		}
	})
}

// reportCPU reports the CPU time of this process, which runs client, proxy and server. On a busy
// machine it is a better measure than the elapsed time.
func reportCPU(b *testing.B) func() {
	b.Helper()
	used := func() time.Duration {
		var usage syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
			b.Fatal(err)
		}
		return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
	}
	before := used()
	return func() { b.ReportMetric(float64(used()-before)/float64(b.N), "cpu-ns/op") }
}

func BenchmarkAnEvent(b *testing.B) {
	const batch = 100
	event := `{"type":"ADDED","object":` + object("a", 5, 1)[:90] + `},"padding":"` + strings.Repeat("x", 2000) + "\"}\n"
	events := strings.Repeat(event, batch)
	w := newWorld(b, func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, events) })
	b.SetBytes(int64(len(event)))
	b.ResetTimer() // Making the certificate takes long.
	defer reportCPU(b)()
	for i := 0; i < b.N; i += batch {
		w.do(b, http.MethodGet, heroes+"?watch=true", "")
	}
}
