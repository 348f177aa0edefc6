package election

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"k8s.io/apimachinery/pkg/types"
)

var defaults = Settings{
	Lease: types.NamespacedName{Namespace: "system", Name: "operator"}, Identity: "me",
	LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second, Logger: slog.New(slog.DiscardHandler),
}

// leading returns an elector in an epoch that was renewed some time ago.
func leading(t *testing.T, ago time.Duration) (*Elector, *Epoch) {
	elector := New(defaults)
	epoch := newEpoch(t.Context(), time.Now().Add(-ago), defaults)
	elector.setEpoch(epoch)
	return elector, epoch
}

func TestOnlyWhatOverwritesNothingPassesOnEachReplica(t *testing.T) {
	for request, want := range map[string]bool{
		"GET /api/v1/namespaces/team/configmaps/x":                             true,
		"POST /api/v1/namespaces/team/configmaps":                              false,
		"PUT /api/v1/namespaces/team/configmaps/x":                             false,
		"PATCH /apis/apps/v1/namespaces/team/deployments/x/status":             false,
		"DELETE /api/v1/namespaces/team/configmaps/x":                          false,
		"POST /api/v1/namespaces/team/pods/x/eviction":                         false,
		"POST /apis/events.k8s.io/v1/namespaces/team/events":                   true,
		"PATCH /apis/events.k8s.io/v1/namespaces/team/events/x":                true,
		"DELETE /apis/events.k8s.io/v1/namespaces/team/events/x":               false,
		"POST /api/v1/namespaces/team/events":                                  true,
		"PATCH /api/v1/namespaces/team/events/x":                               true,
		"PATCH /api/v1/namespaces/events/secrets/x":                            false,
		"PATCH /api/v1/namespaces/team/secrets/events":                         false,
		"PATCH /apis/example.com/v1/namespaces/team/events/x":                  false,
		"POST /apis/authentication.k8s.io/v1/tokenreviews":                     true,
		"POST /k8s/clusters/c/apis/authorization.k8s.io/v1/selfsubjectreviews": true,
		"PUT /apis/coordination.k8s.io/v1/namespaces/system/leases/operator":   false, // It passes by its context.
	} {
		method, path, _ := strings.Cut(request, " ")
		if got := harmless(&http.Request{Method: method, URL: &url.URL{Path: path}}); got != want {
			t.Errorf("%s passes: %t, want %t", request, got, want)
		}
	}
}

func TestTheServerGivesUpAWriteBeforeTheLeaseEnds(t *testing.T) {
	synctest.Test(t, theServerGivesUpAWriteBeforeTheLeaseEnds)
}

func theServerGivesUpAWriteBeforeTheLeaseEnds(t *testing.T) {
	for _, test := range []struct {
		ago   time.Duration // since the last renewal
		given string
		want  time.Duration
	}{
		{0, "", 12500 * time.Millisecond},
		{9 * time.Second, "", 3500 * time.Millisecond},
		{9 * time.Second, "?timeout=1s", time.Second},
		{9 * time.Second, "?timeout=30s&dryRun=All", 3500 * time.Millisecond},
	} {
		elector, epoch := leading(t, test.ago)
		var sent *http.Request
		fence := &Fence{Elector: elector, Passes: IsUnfenced, Epochs: roundTripper(func(request *http.Request) (*http.Response, error) {
			sent = request
			return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
		})}
		request := httptest.NewRequest(http.MethodPatch, "/api/v1/namespaces/a/configmaps/x"+test.given, nil)
		answer, err := fence.RoundTrip(request)
		if err != nil {
			t.Fatal(err)
		}
		limit, err := time.ParseDuration(sent.URL.Query().Get("timeout"))
		if err != nil || limit != test.want {
			t.Errorf("%v after a renewal, the write %q has the time-out %v, %v; want %v", test.ago, test.given, limit, err, test.want)
		}
		if strings.Contains(test.given, "dryRun") && sent.URL.Query().Get("dryRun") != "All" {
			t.Errorf("the write lost its options: %v", sent.URL)
		}
		if epoch.Inside() != 1 {
			t.Errorf("%d writes are in flight before the answer was read", epoch.Inside())
		}
		_ = answer.Body.Close()
		_ = answer.Body.Close()
		if epoch.Inside() != 0 {
			t.Errorf("%d writes are in flight after the answer was read", epoch.Inside())
		}
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (r roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return r(request) }

func TestAWriteIsRefusedOrCutWithTheEpoch(t *testing.T) {
	elector := New(defaults)
	arrived := make(chan struct{})
	fence := &Fence{Elector: elector, Passes: IsUnfenced, Epochs: roundTripper(func(request *http.Request) (*http.Response, error) {
		close(arrived)
		<-request.Context().Done()
		return nil, request.Context().Err()
	})}
	write := func(ctx context.Context) error {
		body := &closer{Reader: strings.NewReader("{}")}
		_, err := fence.RoundTrip(httptest.NewRequestWithContext(ctx, http.MethodPost, "/api/v1/namespaces/a/configmaps", body))
		return err
	}
	if err := write(t.Context()); !errors.Is(err, ErrNotLeading) || fence.Refused.Load() != 1 {
		t.Errorf("without an epoch a write returned %v", err)
	}
	epoch := newEpoch(t.Context(), time.Now().Add(-defaults.RenewDeadline), defaults)
	elector.setEpoch(epoch)
	if err := write(t.Context()); !errors.Is(err, ErrNotLeading) {
		t.Errorf("%v after a renewal a write returned %v", defaults.RenewDeadline, err)
	}
	old, cancel := epoch.Bind(t.Context())
	defer cancel()
	epoch = newEpoch(t.Context(), time.Now(), defaults)
	elector.setEpoch(epoch)
	if err := write(old); !errors.Is(err, ErrNotLeading) {
		t.Errorf("a write of an old epoch returned %v in a new one", err)
	}
	group := lifecycle.New(t.Context())
	group.Go("writer", func(ctx context.Context) error {
		if err := write(ctx); !errors.Is(err, ErrNotLeading) || !strings.Contains(err.Error(), "may have taken effect") {
			t.Errorf("a write in flight returned %v at the end of the epoch", err)
		}
		return nil
	})
	<-arrived
	if inside := epoch.end(ErrNotLeading); inside != 1 {
		t.Errorf("%d writes are in flight", inside)
	}
	<-epoch.empty
	if err := group.Wait(); err != nil {
		t.Error(err)
	}
	if epoch.inDoubt() < 10*time.Second || fence.Cut.Load() != 1 {
		t.Errorf("the write is in doubt for %v, and %d were cut", epoch.inDoubt(), fence.Cut.Load())
	}
}

type closer struct{ io.Reader }

func (*closer) Close() error { return nil }

func TestTheEndOfAnEpochResetsItsConnections(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	elector, epoch := leading(t, 0)
	dial := elector.Dial((&net.Dialer{}).DialContext, func(dialed net.Conn, check func() error) net.Conn { return &refusing{dialed, check} })
	connection, err := dial(t.Context(), "tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	accepted, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer accepted.Close()
	if _, err := connection.Write([]byte("in time")); err != nil {
		t.Error(err)
	}
	if _, err := io.ReadFull(accepted, make([]byte, len("in time"))); err != nil {
		t.Error(err)
	}
	checkLimit(t, connection)
	epoch.end(ErrNotLeading)
	if n, err := accepted.Read(make([]byte, 1)); err == nil || errors.Is(err, io.EOF) {
		t.Errorf("the server read %d bytes, %v; want a reset", n, err)
	}
	if _, err := connection.Write([]byte("too late")); !errors.Is(err, ErrNotLeading) {
		t.Errorf("a late write returned %v", err)
	}
	if _, err := dial(t.Context(), "tcp", listener.Addr().String()); !errors.Is(err, ErrNotLeading) {
		t.Errorf("dialing in an epoch that is over returned %v", err)
	}
	elector.setEpoch(nil)
	if _, err := dial(t.Context(), "tcp", listener.Addr().String()); !errors.Is(err, ErrNotLeading) {
		t.Errorf("dialing without an epoch returned %v", err)
	}
	_ = connection.Close() // It is closed already.
}

// refusing checks before each write.
type refusing struct {
	net.Conn
	check func() error
}

func (r *refusing) Write(bytes []byte) (int, error) {
	if err := r.check(); err != nil {
		return 0, err
	}
	return r.Conn.Write(bytes)
}
