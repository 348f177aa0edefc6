package election

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"

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

// send sends a write of an epoch, which has been entered. The write gets the time until the Lease may be another
// replica's.
func (f *Fence) send(epoch *Epoch, request *http.Request) (*http.Response, error) {
	ctx, cancel := epoch.Bind(request.Context())
	end := func() {
		cancel()
		epoch.Leave()
	}
	answer, err := Bounded(f.Epochs, request.WithContext(ctx), epoch.Left()+epoch.spare, epoch.spare, epoch.unanswered)
	if err != nil {
		if over := epoch.Check(); over != nil {
			f.Cut.Add(1)
			err = fmt.Errorf("%w; the write may have taken effect: %w", over, err)
		}
		end()
		return nil, err
	}
	answer.Body = ending(answer.Body, end)
	return answer, nil
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
