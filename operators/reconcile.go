package operators

import (
	"context"
	"fmt"
	"time"

	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/streams"
	"github.com/reactivex/rxgo/v2"
)

// Defaults of [ReconcileOptions].
const (
	DefaultWorkers = 32 // measured, see ARCHITECTURE.md: with half as many a burst takes a seventh longer
	DefaultTimeout = 2 * time.Minute
	DefaultGrace   = 20 * time.Second // below the 30 s that Kubernetes gives a pod to end
)

// Reconciler brings the world of one object closer to what the object asks for. It is
// level-based: it looks at the state as it is, whatever the causes, and it is safe to
// call again at any time. No two calls for one object overlap. A requeueAfter above 0
// asks for another call after that time, unless an event asks for one before. An error
// asks for one after a backoff, except a [Terminal] one.
type Reconciler func(ctx context.Context, request Request) (requeueAfter time.Duration, err error)

// Controller is what Reconcile runs for the requests of one name.
type Controller struct {
	Reconcile Reconciler

	// IgnoreEchoes drops requests that come of nothing but the controller's own writes to
	// or for the same object, and of which it is certain: see Write.Sole. A foreign write is
	// never taken for an echo: each write has a resource version of its own. Set it where
	// one call does all that it can do; leave it where a call writes and counts on being
	// called again for that.
	IgnoreEchoes bool

	// Held makes the attempts of this controller wait until [Controllers.Open] is called for
	// its name: until its own caches are filled, say. Its requests are taken in meanwhile and
	// count as waiting; those that are BeforeSync need not wait.
	Held bool

	// Stats, if set, counts as that of ReconcileOptions does, for this controller alone.
	Stats *StageStats
}

// ReconcileOptions set up [Reconcile]. The zero value has the defaults.
type ReconcileOptions struct {
	// Workers is how many reconciles run at once, of all controllers: 1 to 1024; default 32.
	// Of them a share is kept for each controller: a sixteenth, at least one, but no more than
	// half of all workers for all others of a controller together. A controller uses what its
	// share and those of the others leave, so that it cannot keep the others from running when
	// its attempts hang. One with nothing running may always start an attempt if a worker is
	// free, and one that is alone uses all workers.
	Workers int
	Backoff Backoff       // between attempts that fail
	Timeout time.Duration // of one attempt: 1 ms to 24 h; default 2 min
	Grace   time.Duration // for attempts in flight when the context ends: up to 10 min; default 20 s

	// Start, if set, holds back the attempts of all controllers until it is closed: until the
	// caches are filled, say. Requests are taken in meanwhile, and those that are BeforeSync need
	// not wait. An attempt of a controller that is Held starts when both gates are open.
	Start <-chan struct{}

	// Stats, if set, counts: In requests, Out results, Waiting objects that are queued, back
	// off after fewer than FailingAfter failures or asked for another attempt within 5 s,
	// Running attempts.
	Stats *StageStats

	// Received, if set, is called after each item of the input was taken in: its requests are
	// scheduled and Flow counts them. It is also called after an item without requests or
	// with nothing but an error, from the one goroutine that takes items in. It must be fast.
	Received func()

	// Unfinished, if set, holds the objects whose last attempt did not succeed or asked for
	// another one.
	Unfinished *Unfinished
}

// withDefaults fills in the defaults and says which option is out of its range.
func (o ReconcileOptions) withDefaults() (ReconcileOptions, error) {
	if o.Workers == 0 {
		o.Workers = DefaultWorkers
	}
	if o.Timeout == 0 {
		o.Timeout = DefaultTimeout
	}
	if o.Grace == 0 {
		o.Grace = DefaultGrace
	}
	if o.Stats == nil {
		o.Stats = &StageStats{}
	}
	var err error
	o.Backoff, err = o.Backoff.withDefaults()
	switch {
	case err != nil:
		return o, err
	case o.Workers < 1 || o.Workers > 1024:
		return o, fmt.Errorf("reconcile: Workers is %d; allowed is 1 to 1024", o.Workers)
	case o.Timeout < time.Millisecond || o.Timeout > 24*time.Hour:
		return o, fmt.Errorf("reconcile: Timeout is %v; allowed is 1ms to 24h", o.Timeout)
	case o.Grace < 0 || o.Grace > 10*time.Minute:
		return o, fmt.Errorf("reconcile: Grace is %v; allowed is above 0, up to 10m", o.Grace)
	}
	return o, nil
}

// Validate says which option is out of its range.
func (o ReconcileOptions) Validate() error {
	_, err := o.withDefaults()
	return err
}

// Reconcile runs reconcilers for requests and makes a result of every attempt.
//
//   - One pool of workers serves all controllers, each in turn, and keeps a share of the
//     workers for each: see ReconcileOptions.Workers.
//   - One attempt at a time for each object. Requests that come meanwhile cause exactly
//     one more; requests that wait are one, with all their causes.
//   - An attempt that fails is repeated after a backoff of its object. Requests that come
//     before neither shorten nor lengthen it. A success ends it.
//   - A request that is Mended has the next attempt start at once, or when the one in flight
//     has failed. If that fails too, the backoff is as long as after any other. Further such
//     requests in the same row of failures wait for a backoff of their own, which begins
//     anew. What the failed attempts wrote themselves is no such request.
//   - A panic is a failure, with its stack in the error. So is runtime.Goexit: see [ErrExited].
//
// When ctx ends, what waits is left to the next start, and attempts in flight may finish
// within Grace; then their context ends too. At the end of the input what is queued is
// still done, and what would be repeated later is not.
//
// Controllers may come and go meanwhile: see [Controllers]. A request for one that was
// removed is dropped; one for a name that there never was, or that is forgotten, fails, as
// [Terminal].
//
//	[request a] [request b] [request a]  =>  [result a] [result b] [result a]
//
// It panics on options that do not validate.
func Reconcile(in streams.Stream[Request], controllers *Controllers, options ReconcileOptions) streams.Stream[Result] {
	options, err := options.withDefaults()
	if err != nil {
		panic(err)
	}
	return streams.Lift(in, func(ctx context.Context, in <-chan rxgo.Item, out streams.Sink[Result]) {
		attempts, cancel := context.WithCancel(context.WithoutCancel(ctx))
		defer cancel()
		pool := newPool(controllers, options)
		defer controllers.follow(pool.news)()
		workers := lifecycle.New(attempts)
		pool.workers = workers
		for range options.Workers {
			workers.Go("worker", pool.worker)
		}
		pool.run(ctx, in, options.Start, out)
		pool.finish(cancel, options.Grace, out)
		_ = workers.Wait() // Workers do not fail: attempt turns panics into results.
	})
}
