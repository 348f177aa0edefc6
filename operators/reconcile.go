package operators

import (
	"context"
	"fmt"
	"time"

	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/streams"
	"github.com/reactivex/rxgo/v2"
	"k8s.io/apimachinery/pkg/types"
)

// Defaults of [ReconcileOptions].
const (
	DefaultWorkers = 32 // measured, see docs/decisions.md: with half as many, a burst takes a seventh longer
	DefaultTimeout = 2 * time.Minute
	DefaultGrace   = 20 * time.Second // below the 30 s that Kubernetes gives a pod to terminate
)

// Reconciler brings the world of one object closer to what the object asks for. It is level-based:
// it looks at the current state, whatever the causes, and it is safe to call again at any time. No
// two calls for one object overlap.
//
// A requeueAfter above 0 asks for another call after that time, unless an event asks for one
// earlier. An error asks for another call after a backoff, unless it is a [Terminal] error.
type Reconciler func(ctx context.Context, request Request) (requeueAfter time.Duration, err error)

// Controller is what Reconcile runs for the requests of one name.
type Controller struct {
	Reconcile Reconciler

	// IgnoreEchoes drops requests whose only causes are the controller's own writes to or for the
	// same object, if these are certain: see [Write.Exclusive]. A foreign write is never taken for an
	// echo, because each write has a resource version of its own. Set IgnoreEchoes if one call does
	// everything that it can do. Leave it unset if the reconciler relies on a call after its own
	// write.
	IgnoreEchoes bool

	// Held makes the attempts of this controller wait until [Controllers.Open] is called for its
	// name, for example until its own caches are filled. Requests are accepted meanwhile and count
	// as waiting. A request that is BeforeSync does not wait.
	Held bool

	// Stats, if set, counts as ReconcileOptions.Stats does, for this controller alone.
	Stats *StageStats

	// These are the controller's own limits. A zero value stands for the value of ReconcileOptions.
	MaxConcurrent int           // attempts that run at once: 1 to 1024; by default as many as there are workers
	Timeout       time.Duration // of one attempt: 1 ms to 24 h
	Backoff       Backoff       // between attempts that fail

	// Delay, if set, takes the place of Backoff: it returns how long an object waits after a number of
	// failures in a row, which is 1 or more. Below 0 counts as 0, and more than 24 h as 24 h. It must
	// be fast. It is called from one goroutine at a time. If it panics, Backoff applies.
	Delay func(object types.NamespacedName, failures int) time.Duration
}

// Validate returns an error for a limit that is out of its range.
func (c Controller) Validate() error {
	_, err := c.withDefaults()
	return err
}

// withDefaults fills in the defaults of a Backoff that is set.
func (c Controller) withDefaults() (Controller, error) {
	var err error
	if c.Backoff != (Backoff{}) {
		c.Backoff, err = c.Backoff.withDefaults()
	}
	switch {
	case err != nil:
		return c, err
	case c.MaxConcurrent < 0 || c.MaxConcurrent > 1024:
		return c, fmt.Errorf("limits: MaxConcurrent is %d; allowed is 1 to 1024", c.MaxConcurrent)
	case c.Timeout != 0 && (c.Timeout < time.Millisecond || c.Timeout > 24*time.Hour):
		return c, fmt.Errorf("limits: Timeout is %v; allowed is 1ms to 24h", c.Timeout)
	}
	return c, nil
}

// ReconcileOptions configures [Reconcile]. The zero value has the defaults.
type ReconcileOptions struct {
	// Workers is how many reconciles run at once, of all controllers: 1 to 1024; default 32.
	//
	// A share of the workers is reserved for each controller: a sixteenth, and at least one worker.
	// What is reserved for all controllers other than one never exceeds half of the workers. A
	// controller uses its own share and whatever the shares of the others leave. So it cannot keep
	// the others from running when its attempts hang.
	//
	// A controller with nothing running may always start an attempt if a worker is free. A
	// controller that is alone uses all workers.
	//
	// An attempt that has run for a second counts as stuck. The other controllers then have as many
	// workers as if it had ended, and its own controller has no more than before. If an attempt took a
	// second or longer, the next attempt for its object counts as stuck from its start. At most three
	// attempts for each worker count as stuck, so at most four times as many attempts run as Workers
	// says. A single worker never gets help.
	Workers int
	Backoff Backoff       // between attempts that fail
	Timeout time.Duration // of one attempt: 1 ms to 24 h; default 2 min
	Grace   time.Duration // for attempts in flight when the context ends: up to 10 min; default 20 s

	// Start, if set, holds back the attempts of all controllers until it is closed, for example
	// until the caches are filled. Requests are accepted meanwhile. A request that is BeforeSync
	// does not wait. An attempt of a controller that is Held starts when both gates are open.
	Start <-chan struct{}

	// Stats, if set, counts requests as In, results as Out and attempts as Running. Waiting counts
	// the objects that are queued, that back off after fewer than FailingAfter failures, or that
	// asked for another attempt within 5 s.
	Stats *StageStats

	// Received, if set, is called after each item of the input, when the item's requests are
	// scheduled and Stats counts them. It is also called for an item without requests, or with only
	// an error. The intake goroutine calls it, so it must be fast.
	Received func()

	// Unfinished, if set, holds the objects whose last attempt did not succeed or asked for
	// another one.
	Unfinished *Unfinished
}

// withDefaults fills in the defaults, and returns an error for an option that is out of its range.
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

// Validate returns an error for an option that is out of its range.
func (o ReconcileOptions) Validate() error {
	_, err := o.withDefaults()
	return err
}

// Reconcile runs reconcilers for requests and emits a result for every attempt.
//
//   - One pool of workers serves all controllers, each in turn, and reserves a share of the workers
//     for each: see ReconcileOptions.Workers.
//   - Among the queued objects of a controller, the first are objects with a SpecChanged request. So while
//     many objects are created, each is begun before work on others goes on. Objects with another event,
//     a retry, a timer or a request of a stream follow. Then come objects that only a list has shown, and
//     last objects with a Routine request. While less urgent objects wait, every fourth turn goes to the
//     object that has waited the longest.
//   - While attempts for SpecChanged requests of a controller are in flight, as many workers stay free for
//     further ones, up to a quarter. Less urgent objects have a quarter in any case.
//   - One attempt at a time is in flight for each object. Requests that come meanwhile cause
//     exactly one more. Requests that wait are coalesced into one, with all their causes.
//   - An attempt that fails is repeated after a backoff of its object. Requests that come before
//     neither shorten nor lengthen the backoff. A success ends it.
//   - A SpecChanged request ends the backoff: the next attempt starts at once, or as soon as the attempt
//     in flight has failed. If that attempt fails too, the backoff is as long as after any other
//     failure.
//   - Further SpecChanged requests in the same streak of failures wait for a separate backoff, which
//     begins anew. A request whose causes are the writes of the failed attempts themselves does not
//     count as SpecChanged.
//   - A panic is a failure, with its stack in the error. So is runtime.Goexit: see [ErrExited].
//
// When ctx ends, requests that wait are left to the next start. Attempts in flight may finish
// within Grace; then their context ends too. At the end of the input, queued requests are still
// done, and delayed attempts are not.
//
// Controllers may come and go meanwhile: see [Controllers]. A request for a controller that was
// removed is dropped. A request for a name that was never set, or is no longer remembered, fails as
// [Terminal].
//
//	[request a] [request b] [request a]  =>  [result a] [result b] [result a]
//
// It panics if the options do not validate.
func Reconcile(in streams.Stream[Request], controllers *Controllers, options ReconcileOptions) streams.Stream[Result] {
	options, err := options.withDefaults()
	if err != nil {
		panic(err)
	}
	return streams.Lift(in, func(ctx context.Context, in <-chan rxgo.Item, out streams.Sink[Result]) {
		attempts, cancel := context.WithCancel(context.WithoutCancel(ctx))
		defer cancel()
		pool := newPool(controllers, options)
		defer controllers.subscribe(pool.wake)()
		workers := lifecycle.New(attempts)
		pool.workers = workers
		pool.started = options.Workers
		for range options.Workers {
			workers.Go("worker", pool.worker)
		}
		defer func() { // Also if a map function ends this goroutine with runtime.Goexit.
			pool.drain(cancel, options.Grace, out)
			_ = workers.Wait() // Workers do not fail: attempt turns panics into results.
		}()
		pool.run(ctx, in, options.Start, out)
	})
}
