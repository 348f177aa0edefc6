package shards_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bellerophon-io/bellerophon/controller/shards"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/sources/sourcestest"
	"go.uber.org/goleak"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/klog/v2"
)

func TestMain(m *testing.M) {
	utilruntime.ErrorHandlers = nil                   // They slow down by a time that means nothing between bubbles.
	klog.SetSlogLogger(slog.New(slog.DiscardHandler)) // Errors are expected.
	goleak.VerifyTestMain(m)
}

// hot is the number of slots that the replicas of a world work on.
const hot = 24

// world is a group of replicas over a fake API server, in virtual time, with an oracle.
type world struct {
	t       *testing.T
	server  *sourcestest.Server
	random  *rand.Rand
	options shards.Options
	group   *lifecycle.Group

	mu        sync.Mutex
	inside    [hot]map[*work]struct{}
	replicas  []*replica
	disturbed time.Time // when something last happened that may delay an owner
	orphaned  [hot]time.Time
	works     int
	refused   int // writes of work that was deposed
	wrong     []string
}

// work is one reconcile.
type work struct {
	ctx context.Context
	by  *replica
}

// replica is one process.
type replica struct {
	world  *world
	name   string
	member *shards.Member
	group  *lifecycle.Group
	wire   *wire
	dead   bool

	mu    sync.Mutex
	kept  shards.Set
	owned shards.Set
}

func (r *replica) Keep(slots shards.Set) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.kept = slots
}

func (r *replica) Own(slots shards.Set) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if slots.Without(r.kept) != (shards.Set{}) {
		r.world.fault("%s owns slots that it does not keep", r.name)
	}
	r.owned = slots
}

func (r *replica) Keys() int { return 7 }

// wire is the network of one replica. While it is cut, requests and streams hang.
type wire struct {
	next http.RoundTripper
	mu   sync.Mutex
	cut  chan struct{} // closed when the network is whole again; nil while it is
	dead bool
}

func (w *wire) pass(ctx context.Context) error {
	for {
		w.mu.Lock()
		cut, dead := w.cut, w.dead
		w.mu.Unlock()
		switch {
		case dead:
			return io.ErrUnexpectedEOF
		case cut == nil:
			return nil
		}
		select {
		case <-cut:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (w *wire) RoundTrip(request *http.Request) (*http.Response, error) {
	if err := w.pass(request.Context()); err != nil {
		return nil, err
	}
	answer, err := w.next.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	if err := w.pass(request.Context()); err != nil { // The request was carried out, and the answer is late or lost.
		_ = answer.Body.Close()
		return nil, err
	}
	answer.Body = &wiredBody{answer.Body, w, request.Context()}
	return answer, nil
}

type wiredBody struct {
	io.ReadCloser
	wire *wire
	ctx  context.Context
}

func (b *wiredBody) Read(into []byte) (int, error) {
	read, err := b.ReadCloser.Read(into)
	if late := b.wire.pass(b.ctx); late != nil {
		return 0, late
	}
	return read, err
}

func (w *wire) partition() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.cut == nil {
		w.cut = make(chan struct{})
	}
}

func (w *wire) heal() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.cut != nil {
		close(w.cut)
		w.cut = nil
	}
}

func (w *wire) isCut() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.cut != nil || w.dead
}

// inWorld runs a test in a new world, in virtual time.
func inWorld(t *testing.T, seed uint64, of sourcestest.Options, test func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		scheme := runtime.NewScheme()
		if err := coordinationv1.AddToScheme(scheme); err != nil {
			t.Fatal(err)
		}
		of.Scheme = scheme
		server, err := sourcestest.New(of)
		if err != nil {
			t.Fatal(err)
		}
		w := &world{
			t: t, server: server, random: rand.New(rand.NewPCG(seed, 1)), disturbed: time.Now(), group: lifecycle.New(t.Context()),
			options: shards.Options{Group: "test", Namespace: "operators"},
		}
		for slot := range w.inside {
			w.inside[slot] = map[*work]struct{}{}
		}
		test(w)
		for _, replica := range w.replicas {
			replica.wire.heal()
			replica.group.Stop()
		}
		for _, replica := range w.replicas {
			if err := replica.group.Wait(); err != nil {
				t.Error(err)
			}
		}
		w.group.Stop()
		if err := w.group.Wait(); err != nil {
			t.Error(err)
		}
		for i, wrong := range w.wrong {
			if i < 5 {
				t.Error(wrong)
			}
		}
	})
}

// fault notes that something is wrong.
func (w *world) fault(format string, details ...any) {
	w.wrong = append(w.wrong, fmt.Sprintf(format, details...))
}

// join adds a replica, with workers.
func (w *world) join(workers int) *replica {
	r := &replica{world: w, name: fmt.Sprintf("replica-%d", len(w.replicas)), wire: &wire{next: w.server}, group: lifecycle.New(w.t.Context())}
	config := w.server.Config()
	config.Transport = r.wire
	options := w.options
	options.Identity = r.name
	var err error
	if r.member, err = shards.New(config, &http.Client{Transport: r.wire}, options, r, slog.New(slog.DiscardHandler)); err != nil {
		w.t.Fatal(err)
	}
	w.replicas = append(w.replicas, r)
	w.disturb()
	r.group.Go("member", r.member.Run)
	for range workers {
		random := rand.New(rand.NewPCG(w.random.Uint64(), 2))
		r.group.Go("worker", func(ctx context.Context) error {
			for ctx.Err() == nil {
				r.work(ctx, random)
				after(ctx, time.Duration(1+random.IntN(300))*time.Millisecond)
			}
			return nil
		})
	}
	return r
}

// after waits.
func after(ctx context.Context, wait time.Duration) {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// work is one reconcile of a random slot. It writes at its beginning and at its end.
func (r *replica) work(ctx context.Context, random *rand.Rand) {
	w, slot := r.world, random.IntN(hot)
	within, end, owned := r.member.Begin(ctx, slot)
	defer end()
	if !owned {
		return
	}
	made := &work{within, r}
	w.enter(slot, made)
	defer w.leave(slot, made)
	switch takes := time.Duration(random.IntN(2000)) * time.Millisecond; random.IntN(40) {
	case 0: // It does not look at its context.
		after(ctx, 20*takes)
	default:
		after(within, takes)
	}
	w.writes(slot, made)
}

func (w *world) enter(slot int, made *work) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.works++
	w.alone(slot, made)
	w.inside[slot][made] = struct{}{}
}

func (w *world) leave(slot int, made *work) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.inside[slot], made)
}

// writes is a write of a reconcile.
func (w *world) writes(slot int, made *work) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if shards.Allowed(made.ctx) != nil {
		w.refused++
		return
	}
	w.alone(slot, made)
}

// alone checks that no other replica may write in a slot. The caller holds the lock.
func (w *world) alone(slot int, made *work) {
	for other := range w.inside[slot] {
		if other.by != made.by && !other.by.dead && shards.Allowed(other.ctx) == nil {
			w.fault("%v: %s works in slot %d, and so does %s", time.Now(), made.by.name, slot, other.by.name)
		}
	}
}

// disturb notes that something happened that may delay an owner.
func (w *world) disturb() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.disturbed = time.Now()
}

// kill ends a replica without a farewell.
func (w *world) kill(r *replica) {
	w.mu.Lock()
	r.dead = true
	for slot := range w.inside {
		for each := range w.inside[slot] {
			if each.by == r {
				delete(w.inside[slot], each)
			}
		}
	}
	w.mu.Unlock()
	r.wire.mu.Lock()
	r.wire.dead = true
	r.wire.mu.Unlock()
	r.wire.heal()
	r.group.Stop()
	w.disturb()
}

// followOrphans checks four times a second that each slot has an owner, except shortly after a disturbance.
func (w *world) followOrphans(ctx context.Context) error {
	for ctx.Err() == nil {
		after(ctx, 250*time.Millisecond)
		w.findOrphans()
	}
	return nil
}

func (w *world) findOrphans() {
	var living []*replica
	w.mu.Lock()
	for _, replica := range w.replicas {
		if !replica.dead && !replica.wire.isCut() && replica.group.Context().Err() == nil {
			living = append(living, replica)
		}
	}
	disturbed := w.disturbed
	w.mu.Unlock()
	limit := w.lease() + time.Second
	for slot := range hot {
		owner := w.ownerOf(slot, living)
		if owner != nil || len(living) == 0 {
			w.orphaned[slot] = time.Time{}
			continue
		}
		if w.orphaned[slot].IsZero() {
			w.orphaned[slot] = time.Now()
		}
		since := w.orphaned[slot]
		if disturbed.After(since) {
			since = disturbed
		}
		if orphaned := time.Since(since); orphaned > limit {
			w.mu.Lock()
			w.fault("%v: slot %d has no owner for %v", time.Now(), slot, orphaned)
			w.mu.Unlock()
			w.orphaned[slot] = time.Time{}
		}
	}
}

func (w *world) lease() time.Duration {
	options, err := w.options.WithDefaults()
	if err != nil {
		w.t.Fatal(err)
	}
	return options.LeaseDuration
}

// ownerOf returns the replica that owns a slot, or still works in it.
func (w *world) ownerOf(slot int, among []*replica) *replica {
	for _, replica := range among {
		_, end, owned := replica.member.Begin(w.t.Context(), slot)
		end()
		if owned {
			return replica
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for each := range w.inside[slot] {
		if shards.Allowed(each.ctx) == nil {
			return each.by
		}
	}
	return nil
}

// pass lets time pass.
func (w *world) pass(duration time.Duration) {
	after(w.t.Context(), duration)
	synctest.Wait()
}

// leases returns the Leases of the group.
func (w *world) leases() []coordinationv1.Lease {
	list := &coordinationv1.LeaseList{}
	if err := w.server.List(list); err != nil {
		w.t.Fatal(err)
	}
	return list.Items
}
