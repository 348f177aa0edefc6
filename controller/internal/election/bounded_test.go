package election

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// A write may wait for this long before it is sent: see waits.
const (
	spare   = 2 * time.Second
	waiting = spare * waitParts / spareParts
)

// server is an API server that accepts no handshake before open is closed, and counts the writes that reach it.
type server struct {
	*httptest.Server
	open   chan struct{}
	writes atomic.Int32
	doubts atomic.Int32 // writes whose outcome is unknown
	handle func(http.ResponseWriter, *http.Request)
}

func newServer(t *testing.T, http2 bool) *server {
	made := &server{open: make(chan struct{}), handle: func(http.ResponseWriter, *http.Request) {}}
	made.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		made.writes.Add(1)
		made.handle(w, r)
	}))
	made.Listener = &heldListener{made.Listener, made.open}
	made.EnableHTTP2 = http2
	made.StartTLS()
	t.Cleanup(made.Close)
	return made
}

type heldListener struct {
	net.Listener
	open chan struct{}
}

func (l *heldListener) Accept() (net.Conn, error) {
	accepted, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &heldConnection{accepted, l.open}, nil
}

type heldConnection struct {
	net.Conn
	open chan struct{}
}

func (c *heldConnection) Read(space []byte) (int, error) {
	<-c.open
	return c.Conn.Read(space)
}

// write sends a write with a minute, and returns its error.
func (s *server) write(ctx context.Context, over http.RoundTripper) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPut, s.URL+"/api/v1/namespaces/a/configmaps/x", strings.NewReader("{}"))
	if err != nil {
		return err
	}
	answer, err := Bounded(over, request, time.Minute, spare, func(time.Time) { s.doubts.Add(1) })
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, answer.Body)
	return errors.Join(err, answer.Body.Close())
}

func TestAWriteThatGetsNoConnectionInTimeIsGivenUp(t *testing.T) {
	for _, http2 := range []bool{false, true} {
		s := newServer(t, http2)
		transport := s.Client().Transport
		began := time.Now()
		err := s.write(t.Context(), transport)
		if took := time.Since(began); !errors.Is(err, errUnsent) || errors.Is(err, context.Canceled) || took < waiting {
			t.Errorf("HTTP/2 %t: without a connection, the write returned %v after %v", http2, err, took)
		}
		close(s.open)
		if err := s.write(t.Context(), transport); err != nil {
			t.Errorf("HTTP/2 %t: with a connection, the write returned %v", http2, err)
		}
		if s.writes.Load() != 1 || s.doubts.Load() != 0 {
			t.Errorf("HTTP/2 %t: %d writes arrived, %d are in doubt; want the second one, which was answered", http2, s.writes.Load(), s.doubts.Load())
		}
	}
}

// late sends each request after a time, as a transport does that waits for a token.
type late struct {
	after time.Duration
	next  http.RoundTripper
}

func (l late) RoundTrip(request *http.Request) (*http.Response, error) {
	<-time.After(l.after)
	return l.next.RoundTrip(request)
}

func TestAWriteThatWaitedForATokenIsGivenUp(t *testing.T) {
	s := newServer(t, true)
	close(s.open)
	if err := s.write(t.Context(), s.Client().Transport); err != nil { // It opens the connection.
		t.Fatal(err)
	}
	if err := s.write(t.Context(), late{waiting + 50*time.Millisecond, s.Client().Transport}); !errors.Is(err, errUnsent) {
		t.Errorf("the write returned %v", err)
	}
	if s.writes.Load() != 1 {
		t.Error("the late write arrived")
	}
}

func TestAWriteThatWasSentInTimeMayTakeLonger(t *testing.T) {
	for _, http2 := range []bool{false, true} {
		s := newServer(t, http2)
		close(s.open)
		s.handle = func(http.ResponseWriter, *http.Request) { <-time.After(2 * waiting) }
		if err := s.write(t.Context(), s.Client().Transport); err != nil {
			t.Errorf("HTTP/2 %t: %v", http2, err)
		}
		s.handle = func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusGatewayTimeout) }
		if err := s.write(t.Context(), s.Client().Transport); err != nil || s.doubts.Load() != 1 {
			t.Errorf("HTTP/2 %t: a time-out at the API server returned %v, %d writes are in doubt", http2, err, s.doubts.Load())
		}
	}
}

func TestATransportThatDoesNotTellWhenItSendsIsNotCutShort(t *testing.T) {
	own := roundTripper(func(request *http.Request) (*http.Response, error) {
		select {
		case <-request.Context().Done():
			return nil, request.Context().Err()
		case <-time.After(2 * waiting):
			return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
		}
	})
	if err := (&server{Server: &httptest.Server{}}).write(t.Context(), own); err != nil {
		t.Error(err)
	}
}

func TestAWriteThatIsSentAgainKeepsItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for after, want := range map[time.Duration]error{waiting / 2: nil, waiting + 1: errUnsent} {
			lost := roundTripper(func(request *http.Request) (*http.Response, error) {
				trace := httptrace.ContextClientTrace(request.Context())
				trace.GetConn("server:443")
				trace.WroteHeaders()
				<-time.After(after) // The connection is lost.
				trace.GetConn("server:443")
				trace.WroteHeaders()
				select {
				case <-request.Context().Done():
					return nil, request.Context().Err()
				case <-time.After(2 * waiting):
					return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
				}
			})
			if err := (&server{Server: &httptest.Server{}}).write(t.Context(), lost); !errors.Is(err, want) {
				t.Errorf("the write that was sent again after %v returned %v, want %v", after, err, want)
			}
		}
	})
}
