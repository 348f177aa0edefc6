package forward

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/bellerophon/dev/container"
	"github.com/bellerophon-io/bellerophon/bellerophon/dev/contract"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/streams"
)

// says answers with a text, and with the body of the request.
func says(text string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		_ = http.NewResponseController(w).EnableFullDuplex() // Otherwise it reads the whole body first.
		_, _ = io.WriteString(w, text)                       // The client may be gone.
		_ = http.NewResponseController(w).Flush()
		_, _ = io.Copy(w, request.Body)
	})
}

// freePort returns the number of a port that was free a moment ago.
func freePort(t *testing.T) int {
	t.Helper()
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	return listener.Addr().(*net.TCPAddr).Port
}

// ask sends a request in a connection of its own.
func ask(address string, body []byte) (string, error) {
	transport := &http.Transport{DisableKeepAlives: true}
	client := &http.Client{Transport: transport, Timeout: 20 * time.Second}
	answer, err := client.Post("http://"+address, "", bytes.NewReader(body))
	if err != nil {
		return "", err
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	return string(text), err
}

func wantAnswer(t *testing.T, address, want string) {
	t.Helper()
	if got, err := ask(address, nil); err != nil || got != want {
		t.Fatalf("the answer is %q, want %q: %v", got, want, err)
	}
}

func TestThePortStaysWhileThePodIsReplaced(t *testing.T) {
	for name, websockets := range map[string]bool{"websocket": true, "SPDY": false} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, websockets)
			forwards, _ := c.run(nil)
			ports := []contract.Port{{Name: "http", Target: freePort(t)}}
			forwards.Set(c.start("first", says("first")), ports)
			local := bound(t, forwards, 1)[0].Local
			if want := net.JoinHostPort("127.0.0.1", strconv.Itoa(ports[0].Target)); local != want {
				t.Errorf("the local port is %s, want %s", local, want)
			}
			wantAnswer(t, local, "first")
			client, err := net.Dial("tcp", local)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = client.Close() }()
			_, _ = io.WriteString(client, "POST / HTTP/1.1\r\nHost: pod\r\nContent-Length: 1\r\n\r\n")
			if _, err := client.Read(make([]byte, 1)); err != nil {
				t.Fatal(err)
			}
			c.kill("first")
			_, _ = io.Copy(io.Discard, client) // It ends when the connection to the pod does.
			forwards.Set(container.Place{}, ports)

			group := lifecycle.New(t.Context())
			for range 5 {
				group.Go("client that waits", func(context.Context) error {
					got, err := ask(local, nil)
					if err == nil && got != "second" {
						err = fmt.Errorf("the answer is %q", got)
					}
					return err
				})
			}
			until(t, "5 connections wait", func() bool {
				forwards.mu.Lock()
				defer forwards.mu.Unlock()
				return forwards.waiting == 5
			})
			forwards.Set(c.start("second", says("second")), ports)
			if err := group.Wait(); err != nil {
				t.Error(err)
			}
			if now := forwards.Bound(); len(now) != 1 || now[0].Local != local {
				t.Errorf("the ports are %v, want the local port %s", now, local)
			}
		})
	}
}

func TestALargeBodyArrivesUnchangedOnManyConnections(t *testing.T) {
	c := newCluster(t, true)
	forwards, _ := c.run(nil)
	forwards.Set(c.start("pod", says("")), []contract.Port{{Name: "http", Target: freePort(t)}})
	local := bound(t, forwards, 1)[0].Local
	large := make([]byte, 10<<20)
	_, _ = rand.Read(large) // It never fails.
	if got, err := ask(local, large); err != nil || !bytes.Equal([]byte(got), large) {
		t.Fatalf("%d of %d bytes arrived: %v", len(got), len(large), err)
	}
	group := lifecycle.New(t.Context())
	for i := range 50 {
		group.Go("client", func(context.Context) error {
			body := large[i*1000 : i*1000+200_000]
			got, err := ask(local, body)
			if err == nil && !bytes.Equal([]byte(got), body) {
				err = fmt.Errorf("%d of %d bytes arrived", len(got), len(body))
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		t.Error(err)
	}
	if dials := c.dialed(); dials != 1 {
		t.Errorf("%d connections to the API server, want 1", dials)
	}
}

func TestAHalfClosedConnectionGetsTheRestOfTheAnswer(t *testing.T) {
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	serving := lifecycle.New(t.Context())
	serving.Go("server", func(context.Context) error {
		connection, err := listener.Accept()
		if err != nil {
			return err
		}
		defer func() { _ = connection.Close() }()
		read, err := io.ReadAll(connection) // It answers at the end of the input.
		if err == nil {
			_, err = fmt.Fprintf(connection, "read %d bytes", len(read))
		}
		return err
	})
	c := newCluster(t, true)
	forwards, _ := c.run(nil)
	forwards.Set(c.add("pod", &pod{address: listener.Addr().String()}), []contract.Port{{Name: "raw", Target: freePort(t)}})
	client, err := net.Dial("tcp", bound(t, forwards, 1)[0].Local)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Close() }()
	if _, err := client.Write(make([]byte, 1000)); err != nil {
		t.Fatal(err)
	}
	if err := client.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(client); err != nil || string(got) != "read 1000 bytes" {
		t.Errorf("the answer is %q: %v", got, err)
	}
	if err := serving.Wait(); err != nil {
		t.Error(err)
	}
}

func TestChangedPortsKeepTheUnchangedOnes(t *testing.T) {
	c := newCluster(t, true)
	forwards, stop := c.run(nil)
	changes := 0
	watching := lifecycle.New(t.Context())
	items := forwards.Changes().Observe(watching.Context())
	watching.Go("changes", func(context.Context) error {
		for item := range items {
			announced, err := streams.Values[struct{}](item)
			if err != nil {
				return err
			}
			changes += len(announced)
		}
		return nil
	})
	pod := c.start("pod", says("pod"))
	a, b, d := contract.Port{Name: "a", Target: freePort(t)}, contract.Port{Name: "b", Target: freePort(t)}, contract.Port{Name: "d", Target: freePort(t)}
	forwards.Set(pod, []contract.Port{a, b})
	before := bound(t, forwards, 2)
	forwards.Set(pod, []contract.Port{b, d})
	after := bound(t, forwards, 2)
	if after[0] != before[1] || after[1].Name != "d" {
		t.Errorf("the ports were %v and are %v", before, after)
	}
	wantAnswer(t, after[0].Local, "pod")
	wantAnswer(t, after[1].Local, "pod")
	if _, err := net.Dial("tcp", before[0].Local); err == nil {
		t.Error("the removed port is open")
	}
	forwards.Set(pod, []contract.Port{b, d})
	stop()
	if err := watching.Wait(); err != nil { // The stream ends with Run.
		t.Error(err)
	}
	if changes != 2 {
		t.Errorf("%d changes of the ports were announced, want 2", changes)
	}
	if left := forwards.Bound(); len(left) != 0 {
		t.Errorf("after Run the ports are %v", left)
	}
}

func TestATakenPortIsReplacedByAFreeOne(t *testing.T) {
	taken, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	c := newCluster(t, true)
	forwards, _ := c.run(nil)
	forwards.Set(c.start("pod", says("pod")), []contract.Port{{Name: "http", Target: taken.Addr().(*net.TCPAddr).Port}})
	local := bound(t, forwards, 1)[0].Local
	if local == taken.Addr().String() {
		t.Fatalf("the local port is the taken one, %s", local)
	}
	wantAnswer(t, local, "pod")
}

func TestALostConnectionIsMadeAgain(t *testing.T) {
	c := newCluster(t, true)
	forwards, _ := c.run(nil)
	forwards.Set(c.start("pod", says("pod")), []contract.Port{{Name: "http", Target: freePort(t)}})
	local := bound(t, forwards, 1)[0].Local
	wantAnswer(t, local, "pod")
	for range 2 {
		c.mu.Lock()
		for _, connection := range c.pods["pod"].connections {
			_ = connection.Close()
		}
		c.mu.Unlock()
		wantAnswer(t, local, "pod")
	}
	if dials := c.dialed(); dials < 3 {
		t.Errorf("%d connections to the API server, want 3", dials)
	}
}

// TestAFailureOfThePodEndsOnlyItsConnection checks that a connection in use survives the failure of another one, and
// that later ones use another link.
func TestAFailureOfThePodEndsOnlyItsConnection(t *testing.T) {
	c := newCluster(t, true)
	forwards, _ := c.run(nil)
	next := make(chan string)
	finish := sync.OnceFunc(func() { close(next) })
	streaming := http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		for text := range next {
			_, _ = io.WriteString(w, text)
			_ = http.NewResponseController(w).Flush()
		}
	})
	forwards.Set(c.start("pod", streaming), []contract.Port{{Name: "http", Target: freePort(t)}})
	t.Cleanup(finish) // Before the server of the pod is closed.
	local := bound(t, forwards, 1)[0].Local
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	sending := lifecycle.New(t.Context())
	sending.Go("first text", func(context.Context) error { next <- "a"; return nil })
	answer, err := client.Get("http://" + local)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	for failures := range 10 {
		c.fail("pod", "connection refused")
		if got, err := ask(local, nil); err == nil {
			t.Fatalf("the pod that fails answers %q", got)
		}
		until(t, "the link is replaced", func() bool { return c.dialed() == failures+2 })
	}
	if err := sending.Wait(); err != nil {
		t.Fatal(err)
	}
	next <- "b"
	finish()
	if got, err := io.ReadAll(answer.Body); err != nil || string(got) != "ab" {
		t.Errorf("the connection in use got %q: %v", got, err)
	}
}

func TestConnectionsThatWaitAreBounded(t *testing.T) {
	c := newCluster(t, true)
	forwards, stop := c.run(func(f *Forwards) { f.patience, f.maxWaiting = 300*time.Millisecond, 2 })
	forwards.Set(container.Place{}, []contract.Port{{Name: "http", Target: freePort(t)}})
	local := bound(t, forwards, 1)[0].Local
	ended := make(chan time.Duration, 3)
	group := lifecycle.New(t.Context())
	began := time.Now()
	for range 3 {
		group.Go("client", func(context.Context) error {
			connection, err := net.Dial("tcp", local)
			if err != nil {
				return err
			}
			defer func() { _ = connection.Close() }()
			_, _ = connection.Read(make([]byte, 1)) // It ends with the connection.
			ended <- time.Since(began)
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	took := []time.Duration{<-ended, <-ended, <-ended}
	slices.Sort(took)
	if took[0] >= 300*time.Millisecond || took[1] < 300*time.Millisecond {
		t.Errorf("the connections ended after %v, want one at once, and two after 300 ms", took)
	}
	waiter, err := net.Dial("tcp", local)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = waiter.Close() }()
	stop()
	if _, err := waiter.Read(make([]byte, 1)); err == nil {
		t.Error("a connection that waits survives Run")
	}
}

func TestChangesAreEmittedForPortsThatAreSetBeforeRun(t *testing.T) {
	c := newCluster(t, true)
	forwards, err := New(c.config(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	forwards.Set(c.start("pod", says("pod")), []contract.Port{{Name: "http", Target: freePort(t)}})
	if early := forwards.Bound(); len(early) != 0 {
		t.Errorf("before Run the ports are %v", early)
	}
	group := lifecycle.New(t.Context())
	items := forwards.Changes().Observe(group.Context())
	group.Go("forwards", forwards.Run)
	if _, err := streams.Values[struct{}](<-items); err != nil {
		t.Error(err)
	}
	wantAnswer(t, bound(t, forwards, 1)[0].Local, "pod")
	group.Stop()
	for range items {
	}
	if err := group.Wait(); err != nil {
		t.Error(err)
	}
}
