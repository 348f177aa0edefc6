package distance

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"go.uber.org/goleak"
	"pgregory.net/rapid"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const roundTrip = 10 * time.Millisecond

// apart joins a client and a server in virtual time. It must be called in a bubble.
func apart(t *testing.T) (client, server net.Conn) {
	client, near := net.Pipe()
	far, server := net.Pipe()
	ctx, cancel := context.WithCancel(t.Context())
	joined := lifecycle.New(ctx)
	joined.Go("join", func(ctx context.Context) error {
		join(ctx, near, far, roundTrip)
		return nil
	})
	t.Cleanup(func() {
		cancel()
		_ = joined.Wait()
		_, _ = client.Close(), server.Close()
	})
	<-time.After(roundTrip) // The connection is open.
	return client, server
}

// arrival is a piece with the time at which it was read.
type arrival struct {
	text string
	at   time.Duration
}

// arrivals reads until the end of the connection, and sends each piece with the time since the start.
func arrivals(t *testing.T, from net.Conn, start time.Time) <-chan []arrival {
	read := make(chan []arrival, 1)
	reading := lifecycle.New(context.Background())
	reading.Go("read", func(context.Context) error {
		var all []arrival
		buffer := make([]byte, 1<<16)
		for {
			n, err := from.Read(buffer)
			if n > 0 {
				all = append(all, arrival{string(buffer[:n]), time.Since(start)})
			}
			if err != nil {
				read <- append(all, arrival{"", time.Since(start)})
				return nil
			}
		}
	})
	t.Cleanup(func() { _ = reading.Wait() })
	return read
}

func TestBytesArriveHalfARoundTripLaterBothWays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server := apart(t)
		start := time.Now()
		got := make([]byte, 4)
		write(t, client, "ping")
		if _, err := io.ReadFull(server, got); err != nil || time.Since(start) != roundTrip/2 {
			t.Errorf("%q arrived after %v: %v", got, time.Since(start), err)
		}
		write(t, server, "pong")
		if _, err := io.ReadFull(client, got); err != nil || string(got) != "pong" || time.Since(start) != roundTrip {
			t.Errorf("%q arrived after %v: %v", got, time.Since(start), err)
		}
	})
}

func TestBytesInFlightDoNotWaitForEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server := apart(t)
		start := time.Now()
		read := arrivals(t, server, start)
		for range 100 {
			write(t, client, "x")
		}
		_ = client.Close()
		all := <-read
		if end := all[len(all)-1]; len(all) != 101 || end.at != roundTrip/2 {
			t.Errorf("%d pieces arrived within %v, want 101 within half a round trip", len(all), end.at)
		}
	})
}

func TestOpeningAConnectionTakesARoundTrip(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		client, near := net.Pipe()
		far, server := net.Pipe()
		joined := lifecycle.New(t.Context())
		joined.Go("join", func(ctx context.Context) error {
			join(ctx, near, far, roundTrip)
			return nil
		})
		write(t, client, "x")
		if _, err := io.ReadFull(server, make([]byte, 1)); err != nil || time.Since(start) != roundTrip*3/2 {
			t.Errorf("the first byte arrived after %v: %v", time.Since(start), err)
		}
		_, _ = client.Close(), server.Close()
		if err := joined.Wait(); err != nil {
			t.Error(err)
		}
	})
}

func TestWhateverIsSentArrivesInItsOrderAndNeverEarly(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		pauses := rapid.SliceOfN(rapid.IntRange(0, 8), 1, 40).Draw(r, "pauses in ms")
		sizes := rapid.SliceOfN(rapid.IntRange(1, 3*pieceSize), len(pauses), len(pauses)).Draw(r, "sizes")
		synctest.Test(t, func(t *testing.T) {
			client, server := apart(t)
			start := time.Now()
			read := arrivals(t, server, start)
			var sent bytes.Buffer
			var sentAt []time.Duration // of each byte
			for i, pause := range pauses {
				<-time.After(time.Duration(pause) * time.Millisecond)
				text := strings.Repeat(string(rune('a'+i%26)), sizes[i])
				at := time.Since(start)
				write(t, client, text)
				sent.WriteString(text)
				for range sizes[i] {
					sentAt = append(sentAt, at)
				}
			}
			_ = client.Close()
			var got bytes.Buffer
			for _, one := range <-read {
				for range len(one.text) {
					if sentAt[got.Len()]+roundTrip/2 != one.at {
						t.Fatalf("a byte that was sent after %v arrived after %v", sentAt[got.Len()], one.at)
					}
					got.WriteByte(one.text[0])
				}
			}
			if got.Len() != sent.Len() || got.String() != sent.String() {
				t.Fatalf("%d bytes arrived of %d, or in another order", got.Len(), sent.Len())
			}
		})
	})
}

func write(t *testing.T, to net.Conn, text string) {
	t.Helper()
	if _, err := io.WriteString(to, text); err != nil {
		t.Fatal(err)
	}
}

func TestAConnectionEndsWithTheServerTheClientOrTheRelay(t *testing.T) {
	for name, end := range map[string]func(client, server net.Conn, cancel func()){
		"the client": func(client, _ net.Conn, _ func()) { _ = client.Close() },
		"the server": func(_, server net.Conn, _ func()) { _ = server.Close() },
		"the relay":  func(_, _ net.Conn, cancel func()) { cancel() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client, near := net.Pipe()
				far, server := net.Pipe()
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				joined := lifecycle.New(ctx)
				joined.Go("join", func(ctx context.Context) error {
					join(ctx, near, far, roundTrip)
					return nil
				})
				end(client, server, cancel)
				for _, left := range []net.Conn{client, server} {
					if n, err := left.Read(make([]byte, 1)); err == nil {
						t.Errorf("%d bytes were read from an ended connection", n)
					}
					_ = left.Close()
				}
				if err := joined.Wait(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

func TestAServerBehindARelayAnswersAfterTheRoundTrips(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "here") }))
	defer server.Close()
	relay, err := Open(server.Listener.Addr().String(), 20*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{}}
	start := time.Now()
	answer, err := client.Get("http://" + relay.Address())
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(answer.Body)
	_ = answer.Body.Close()
	if took := time.Since(start); err != nil || string(body) != "here" || took < 40*time.Millisecond { // A busy machine takes longer.
		t.Errorf("got %q after %v, want the answer after two round trips or more: %v", body, took, err)
	}
	if err := relay.Close(); err != nil {
		t.Error(err)
	}
	client.CloseIdleConnections()
	if answer, err := client.Get("http://" + relay.Address()); err == nil {
		_ = answer.Body.Close()
		t.Error("a closed relay answers")
	}
}

func TestARoundTripHasALimit(t *testing.T) {
	for _, wrong := range []time.Duration{0, -time.Second, Longest + 1} {
		if _, err := Open("127.0.0.1:1", wrong); err == nil || !strings.Contains(err.Error(), "allowed is above 0 to 1s") {
			t.Errorf("%v: %v", wrong, err)
		}
	}
}
