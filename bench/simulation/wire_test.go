package simulation

import (
	"context"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
)

// bytesOf counts a request, and returns where the bytes of its answer count.
func bytesOf(t *Traffic, request *http.Request) *int64 {
	query := request.URL.Query()
	objects := strings.Contains(request.URL.Path, "/"+version.Group+"/"+version.Version+"/")
	switch {
	case strings.Contains(request.URL.Path, "/leases"):
		t.Leases++
		return &t.LeaseBytes
	case request.Method != http.MethodGet:
		t.Writes++
		return &t.WriteBytes
	case query.Get("watch") != "":
		t.Watches++
		return &t.WatchBytes
	case objects:
		t.Pages++
		if query.Get("continue") == "" && query.Get("limit") != "1" { // A list of one object asks for the current version.
			t.Reads++
		}
		return &t.PageBytes
	}
	t.Others++
	return &t.OtherBytes
}

// wire is the network of a replica. It counts what passes, and can be cut as the death of a process cuts it.
type wire struct {
	next http.RoundTripper
	rate float64 // bytes a second that pass, and that the replica decodes; 0 for a wire of a real run
	dead context.Context
	cut  context.CancelFunc

	mu     sync.Mutex
	random *rand.Rand
	counts Traffic
	free   time.Time // when what was asked for before has passed
}

var _ utilnet.RoundTripperWrapper = &wire{}

// latency is the mean time of a request in a simulated run. Requests take between half of it and half as much again.
// So two replicas that act at once are not always served in the same order.
const latency = 5 * time.Millisecond

func newWire(rate float64, seed int) *wire {
	made := &wire{rate: rate, random: rand.New(rand.NewPCG(uint64(seed), 0))}
	made.dead, made.cut = context.WithCancel(context.Background())
	return made
}

// WrappedRoundTripper returns the transport behind the wire.
func (w *wire) WrappedRoundTripper() http.RoundTripper { return w.next }

// RoundTrip sends a request.
func (w *wire) RoundTrip(request *http.Request) (*http.Response, error) {
	if w.dead.Err() != nil {
		return nil, io.ErrUnexpectedEOF
	}
	w.mu.Lock()
	bytes := bytesOf(&w.counts, request)
	late := latency/2 + time.Duration(w.random.Int64N(int64(latency)))
	w.mu.Unlock()
	ctx, cancel := context.WithCancel(request.Context())
	stop := context.AfterFunc(w.dead, cancel)
	if w.rate > 0 {
		wait(ctx, late)
	}
	request = request.Clone(ctx)
	if strings.Contains(request.Header.Get("Accept"), "protobuf") { // The fake API server has JSON alone, and runs are compared.
		request.Header.Set("Accept", "application/json")
	}
	answer, err := w.next.RoundTrip(request)
	if err != nil {
		stop()
		cancel()
		return nil, err
	}
	answer.Body = &body{answer.Body, w, bytes, ctx, func() { stop(); cancel() }}
	return answer, nil
}

// traffic returns what has passed so far.
func (w *wire) traffic() Traffic {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.counts
}

// take counts bytes, and returns when they have passed.
func (w *wire) take(ctx context.Context, into *int64, bytes int) {
	w.mu.Lock()
	*into += int64(bytes)
	if w.rate == 0 || bytes == 0 {
		w.mu.Unlock()
		return
	}
	now := time.Now()
	if w.free.Before(now) {
		w.free = now
	}
	w.free = w.free.Add(time.Duration(float64(bytes) / w.rate * float64(time.Second)))
	late := w.free.Sub(now)
	w.mu.Unlock()
	wait(ctx, late)
}

// took counts traffic that is modelled.
func (w *wire) took(modelled Traffic) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.counts = w.counts.plus(1, modelled)
}

// wait waits for a duration, or until ctx ends.
func wait(ctx context.Context, duration time.Duration) {
	timer := time.NewTimer(duration)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// body is the body of an answer.
type body struct {
	io.ReadCloser
	wire  *wire
	bytes *int64
	ctx   context.Context // of the request: an io.Reader does not get one
	over  func()
}

func (b *body) Read(into []byte) (int, error) {
	read, err := b.ReadCloser.Read(into)
	b.wire.take(b.ctx, b.bytes, read)
	return read, err
}

func (b *body) Close() error {
	b.over()
	return b.ReadCloser.Close()
}
