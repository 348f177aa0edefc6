package election_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/operators"
	"github.com/bellerophon-io/bellerophon/sources/sourcestest"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

// The settings of the replicas in virtual time are the defaults.
const (
	leaseDuration = 15 * time.Second
	renewDeadline = 10 * time.Second
	retryPeriod   = 2 * time.Second
)

// world is some replicas of an operator on a fake API server, in virtual time. The operator writes to each
// ConfigMap that it is the writer, again and again, and without a condition.
type world struct {
	t        *testing.T
	server   *sourcestest.Server
	late     *lifecycle.Group // the writes that are delivered after their sender has given up
	replicas []*replica

	mu     sync.Mutex
	writes []written // in the order of the API server
}

// written is a write that has reached the API server.
type written struct {
	by     string // the name of the replica
	holder string // which replica the Lease named then
	at     time.Time
	code   int
}

// replica is a manager with its network.
type replica struct {
	*world
	name    string
	manager *controller.Manager
	group   *lifecycle.Group
	random  *rand.Rand

	mu         sync.Mutex
	cut        func(*http.Request) bool // requests that hang
	changed    chan struct{}            // closed when cut changes
	lags       bool                     // writes are delivered late
	lose       func(*http.Request) bool // the next such request is delivered, and not answered
	answers    time.Duration            // how late renewals are answered
	reconciled map[string]int           // by object
	errors     []error                  // of writes
	reconcile  func(ctx context.Context, request operators.Request) (time.Duration, error)
}

// inWorld runs test with some replicas, which do not run yet.
func inWorld(t *testing.T, replicas int, change func(r *replica, options *controller.Options), test func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		server, err := sourcestest.New(sourcestest.Options{Scheme: scheme.Scheme})
		if err != nil {
			t.Fatal(err)
		}
		w := &world{t: t, server: server, late: lifecycle.New(context.Background())}
		for i := range replicas {
			w.add(i, change)
		}
		test(w)
		for _, replica := range w.replicas {
			replica.heal()
			replica.stop()
		}
		if err := w.late.Wait(); err != nil {
			t.Error(err)
		}
	})
}

// add adds a replica.
func (w *world) add(number int, change func(r *replica, options *controller.Options)) *replica {
	w.t.Helper()
	r := &replica{
		world: w, name: string(rune('a' + number)), changed: make(chan struct{}), reconciled: map[string]int{},
		random: rand.New(rand.NewPCG(uint64(number), 1)),
	}
	r.reconcile = r.write
	options := controller.Options{
		Logger:         slog.New(slog.DiscardHandler),
		OnError:        func(error) {},
		LeaderElection: controller.LeaderElection{Lease: "system/operator", Identity: r.name},
	}
	if change != nil {
		change(r, &options)
	}
	var err error
	if r.manager, err = controller.NewManager(&rest.Config{Host: "http://sourcestest", Transport: r}, scheme.Scheme, options); err != nil {
		w.t.Fatal(err)
	}
	w.must(r.manager.Add("configs", func(ctx context.Context, request operators.Request) (time.Duration, error) {
		r.mu.Lock()
		r.reconciled[request.Name]++
		r.mu.Unlock()
		return r.reconcile(ctx, request)
	}, controller.For(&corev1.ConfigMap{}), controller.IgnoreEchoes()))
	w.replicas = append(w.replicas, r)
	return r
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (r *replica) start() {
	r.group = lifecycle.New(context.Background())
	r.group.Go("replica "+r.name, r.manager.Run)
}

// stop ends a replica cleanly.
func (r *replica) stop() {
	r.t.Helper()
	if r.group == nil {
		return
	}
	r.group.Stop()
	r.must(r.group.Wait())
	r.group = nil
}

// write writes to the object without a condition, and asks for another attempt soon.
func (r *replica) write(ctx context.Context, request operators.Request) (time.Duration, error) {
	return 300 * time.Millisecond, r.stamp(ctx, request.Name)
}

// stamp writes to an object that this replica is its writer.
func (r *replica) stamp(ctx context.Context, name string) error {
	body := fmt.Appendf(nil, `{"data":{"by":%q,"at":%q}}`, r.name, time.Now().Format(time.RFC3339Nano))
	_, err := controller.Patch(ctx, r.manager.Client(), config(name), controller.RawPatch(types.MergePatchType, body))
	if err != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.errors = append(r.errors, err)
	}
	return err
}

// tally counts by name.
type tally struct {
	mu     sync.Mutex
	counts map[string]int
}

func (c *tally) add(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.counts == nil {
		c.counts = map[string]int{}
	}
	c.counts[name]++
}

func (c *tally) of(name string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.counts[name]
}

func (c *tally) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return fmt.Sprint(c.counts)
}

func config(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: name}}
}

// hang makes matching requests hang, until heal.
func (r *replica) hang(match func(*http.Request) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cut = match
	close(r.changed)
	r.changed = make(chan struct{})
}

func (r *replica) heal() { r.hang(nil) }

func isLease(request *http.Request) bool { return strings.Contains(request.URL.Path, "/leases") }
func all(*http.Request) bool             { return true }

// passes waits while the request hangs. Events pass: their recorder holds a lock during a request, and virtual
// time does not pass while another goroutine waits for a lock.
func (r *replica) passes(request *http.Request) error {
	for !strings.Contains(request.URL.Path, "/events") {
		r.mu.Lock()
		cut, changed := r.cut, r.changed
		r.mu.Unlock()
		if cut == nil || !cut(request) {
			return nil
		}
		select {
		case <-changed:
		case <-request.Context().Done():
			return request.Context().Err()
		}
	}
	return nil
}

// unsent is how long the kernel tries to send the writes of a leader.
const unsent = (leaseDuration - renewDeadline) / 2

// RoundTrip is the network of a replica.
func (r *replica) RoundTrip(request *http.Request) (*http.Response, error) {
	limit, _ := time.ParseDuration(request.URL.Query().Get("timeout"))
	sending, begun := request, time.Now()
	if limit > 0 {
		ctx, cancel := context.WithTimeout(request.Context(), unsent)
		defer cancel()
		sending = request.WithContext(ctx)
	}
	if err := r.passes(sending); err != nil {
		return nil, err
	}
	if request.Method == http.MethodGet {
		answer, err := r.server.RoundTrip(request)
		if err == nil && request.URL.Query().Get("watch") == "true" {
			answer.Body = &watchBody{answer.Body, r, request}
		}
		return answer, err
	}
	if r.loses(request) {
		answer, err := r.deliver(request)
		if err == nil {
			err = answer.Body.Close()
		}
		return nil, errors.Join(errors.New("the connection was reset"), err)
	}
	if late := r.answersAfter(request); late > 0 {
		answer, err := r.deliver(request)
		select {
		case <-time.After(late):
			return answer, err
		case <-request.Context().Done():
			return nil, request.Context().Err()
		}
	}
	r.mu.Lock()
	lag := time.Duration(0)
	if r.lags && limit > 0 { // The kernel tries for as long as it may, and so does the API server, or for less.
		lag = unsent - time.Since(begun) + time.Duration(r.random.Int64N(int64(limit)))
	}
	r.mu.Unlock()
	if lag == 0 {
		return r.deliver(request)
	}
	content, err := io.ReadAll(request.Body)
	if err != nil {
		return nil, err
	}
	delivered := request.Clone(context.WithoutCancel(request.Context()))
	delivered.Body = io.NopCloser(bytes.NewReader(content))
	type result struct {
		answer *http.Response
		err    error
	}
	done := make(chan result, 1)
	r.late.Go("late write", func(context.Context) error {
		<-time.After(lag)
		answer, err := r.deliver(delivered)
		done <- result{answer, err}
		return nil
	})
	select {
	case got := <-done:
		return got.answer, got.err
	case <-request.Context().Done():
		return nil, request.Context().Err()
	}
}

// answersAfter returns how late a request is answered.
func (r *replica) answersAfter(request *http.Request) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !isLease(request) {
		return 0
	}
	return r.answers
}

// loseAnswer loses the answer to the next matching request.
func (r *replica) loseAnswer(match func(*http.Request) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lose = match
}

// loses reports whether the answer to a request gets lost.
func (r *replica) loses(request *http.Request) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.lose == nil || !r.lose(request) {
		return false
	}
	r.lose = nil
	return true
}

// watchBody is the body of a watch, which hangs while the network does.
type watchBody struct {
	io.ReadCloser
	of      *replica
	request *http.Request
}

func (b *watchBody) Read(space []byte) (int, error) {
	n, err := b.ReadCloser.Read(space)
	if hangs := b.of.passes(b.request); hangs != nil {
		return 0, hangs
	}
	return n, err
}

// deliver hands a write to the API server, and records it.
func (r *replica) deliver(request *http.Request) (*http.Response, error) {
	r.world.mu.Lock()
	defer r.world.mu.Unlock()
	holder := r.holder()
	answer, err := r.server.RoundTrip(request)
	if err == nil && strings.Contains(request.URL.Path, "/configmaps") {
		r.writes = append(r.writes, written{r.name, holder, time.Now(), answer.StatusCode})
	}
	return answer, err
}

// holder returns the name of the replica that the Lease names.
func (w *world) holder() string {
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "system", Name: "operator"}}
	if w.server.Get(lease) != nil || lease.Spec.HolderIdentity == nil {
		return ""
	}
	name, _, _ := strings.Cut(*lease.Spec.HolderIdentity, "_")
	return name
}

// renewed returns when the holder of the Lease sent its last renewal, as the Lease says.
func (w *world) renewed() time.Time {
	w.t.Helper()
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "system", Name: "operator"}}
	w.must(w.server.Get(lease))
	return lease.Spec.RenewTime.Time
}

// since returns the writes since a time.
func (w *world) since(begin time.Time) (found []written) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, write := range w.writes {
		if !write.at.Before(begin) {
			found = append(found, write)
		}
	}
	return found
}

// check fails the test for each write of a replica that the Lease did not name.
func (w *world) check() {
	w.t.Helper()
	for _, write := range w.since(time.Time{}) {
		if write.holder != write.by {
			w.t.Errorf("%s has written while the Lease named %q, at %v", write.by, write.holder, write.at)
		}
	}
}

// first returns the first write of a replica since a time, and fails the test if there is none.
func (w *world) first(by string, begin time.Time) time.Time {
	w.t.Helper()
	for _, write := range w.since(begin) {
		if write.by == by && write.code == http.StatusOK {
			return write.at
		}
	}
	w.t.Fatalf("%s has written nothing since %v", by, begin)
	return begin
}

func (w *world) create(names ...string) {
	w.t.Helper()
	for _, name := range names {
		w.must(w.server.Create(config(name)))
	}
}

// wait lets a time pass, and then waits until all goroutines of the bubble are blocked.
func wait(duration time.Duration) {
	<-time.After(duration)
	synctest.Wait()
}

// count returns the number of reconciles of a replica so far.
func (r *replica) count() (total int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, times := range r.reconciled {
		total += times
	}
	return total
}

// failed returns the errors of writes that were not about leading.
func (r *replica) failed() (others []error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, err := range r.errors {
		if !errors.Is(err, controller.ErrNotLeading) {
			others = append(others, err)
		}
	}
	return others
}
