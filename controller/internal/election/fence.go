package election

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
)

// Fence sends the requests of a replica. It refuses writes that only the leader may send while this replica
// does not lead, and ends them with the epoch. All its fields but the counts are required.
type Fence struct {
	Elector *Elector
	Open    http.RoundTripper              // sends what each replica may send
	Epochs  http.RoundTripper              // sends the leader's writes, over connections of [Elector.Dial]
	Passes  func(ctx context.Context) bool // reports whether each replica may send the writes of a context

	Refused atomic.Int64 // writes that were not sent
	Cut     atomic.Int64 // writes in flight whose epoch ended
}

type unfencedKey struct{}

// Unfenced returns a context whose writes each replica may send.
func Unfenced(ctx context.Context) context.Context {
	return context.WithValue(ctx, unfencedKey{}, true)
}

// IsUnfenced reports whether a context, or a parent of it, was made by [Unfenced].
func IsUnfenced(ctx context.Context) bool { return ctx.Value(unfencedKey{}) != nil }

// RoundTrip implements http.RoundTripper.
func (f *Fence) RoundTrip(request *http.Request) (*http.Response, error) {
	if harmless(request) || f.Passes(request.Context()) {
		return f.Open.RoundTrip(request)
	}
	epoch := Of(request.Context()) // Work of an epoch that is over must not write in the next one.
	if epoch == nil {
		epoch = f.Elector.Epoch()
	}
	if epoch == nil || !epoch.Enter() {
		f.Refused.Add(1)
		if request.Body != nil {
			_ = request.Body.Close() // A transport closes the body of what it does not send.
		}
		return nil, f.Elector.refusal()
	}
	return f.send(epoch, request)
}

// WrappedRoundTripper returns the wrapped transport, which some functions of client-go look for.
func (f *Fence) WrappedRoundTripper() http.RoundTripper { return f.Open }

// CloseIdleConnections closes the idle connections.
func (f *Fence) CloseIdleConnections() {
	utilnet.CloseIdleConnectionsFor(f.Open)
	utilnet.CloseIdleConnectionsFor(f.Epochs)
}

// send sends a write of an epoch, which has been entered.
//
// The write gets the time until the Lease may be another replica's. Half of the least such time is for
// bytes that the kernel has not sent. The API server gives the write up after the rest.
func (f *Fence) send(epoch *Epoch, request *http.Request) (*http.Response, error) {
	left := epoch.Left() + epoch.spare
	ctx, cancel := epoch.Bind(request.Context())
	ctx, expire := context.WithTimeout(ctx, left)
	end := func() {
		expire()
		cancel()
		epoch.Leave()
	}
	answer, err := f.Epochs.RoundTrip(Within(request.WithContext(ctx), left-epoch.spare/2))
	if err != nil {
		epoch.unanswered(left)
		if over := epoch.Check(); over != nil {
			f.Cut.Add(1)
			err = fmt.Errorf("%w; the write may have taken effect: %w", over, err)
		}
		end()
		return nil, err
	}
	if answer.StatusCode >= http.StatusInternalServerError { // Such as a time-out: the API server does not say what it did.
		epoch.unanswered(left)
	}
	answer.Body = Ending(answer.Body, end)
	return answer, nil
}

// Within returns a request whose handling the API server ends after a time: a millisecond at least, since it takes 0 for
// its default of a minute.
func Within(request *http.Request, limit time.Duration) *http.Request {
	limit = max(limit, time.Millisecond)
	query := request.URL.Query()
	if given, err := time.ParseDuration(query.Get("timeout")); err == nil && given > 0 && given < limit {
		return request
	}
	query.Set("timeout", strconv.FormatInt(limit.Milliseconds(), 10)+"ms")
	address := *request.URL
	address.RawQuery = query.Encode()
	request.URL = &address
	return request
}

// harmless reports whether a request overwrites nothing. Reads change nothing, and neither do reviews.
// An Event only says what has happened, under a name of its own.
func harmless(request *http.Request) bool {
	path := request.URL.Path
	switch request.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
		return true
	case http.MethodPost:
		return strings.Contains(path, "/apis/authentication.k8s.io/") || strings.Contains(path, "/apis/authorization.k8s.io/") || isEvent(path)
	case http.MethodPatch:
		return isEvent(path)
	}
	return false
}

// isEvent reports whether a path is about Events, of the new group or of the old one.
func isEvent(path string) bool {
	parts := strings.Split(path, "/")
	at := slices.Index(parts, "events")
	return at > 0 && (strings.Contains(path, "/apis/events.k8s.io/") || at > 3 && slices.Equal(parts[at-4:at-1], []string{"api", "v1", "namespaces"}))
}

// refusal returns the error of a write that only the leader may send.
func (e *Elector) refusal() error {
	holder, _ := e.Holder()
	if holder == "" || holder == e.settings.Identity {
		holder = "no other replica, as far as this one has seen"
	}
	return fmt.Errorf("%w: the Lease %s is held by %s", ErrNotLeading, e.settings.Lease, holder)
}

// Ending returns the body of an answer, which calls end once: when it was read to the end, fails or is closed.
func Ending(of io.ReadCloser, end func()) io.ReadCloser { return &body{of, end, atomic.Bool{}} }

// body is the body of an answer, which ends the write when it was read to the end, failed or was closed.
type body struct {
	io.ReadCloser
	end   func()
	ended atomic.Bool
}

func (b *body) finish() {
	if !b.ended.Swap(true) {
		b.end()
	}
}

func (b *body) Read(space []byte) (int, error) {
	n, err := b.ReadCloser.Read(space)
	if err != nil {
		b.finish()
	}
	return n, err
}

func (b *body) Close() error {
	err := b.ReadCloser.Close()
	b.finish()
	return err
}
