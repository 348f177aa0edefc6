package sources

import (
	"context"
	"fmt"
	"time"

	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/streams"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// retry returns the backoff of the reflector after failures: 250 ms at first, and never more than
// 10 s. The reflector's default starts at 800 ms and reaches a minute. That is too long to wait for
// a resource definition that is about to be installed.
func retry() *wait.Backoff {
	return &wait.Backoff{Duration: 250 * time.Millisecond, Factor: 2, Jitter: 0.25, Steps: 6, Cap: 8 * time.Second}
}

// Watch returns a stream that lists the objects of a kind on an API server and then watches them.
// Client-go's Reflector does the listing, resuming, bookmarks, expiry and backoff.
//
//   - ListStart carries the resource version that the server reported as current when the list was
//     requested. It carries none if the list itself is current, as a list requested without a
//     version is.
//   - Objects selected by First are emitted as Applied before the first list.
//   - A kind without namespaces has one source, whatever Namespaces says. If only the API server knows
//     that, the sources of the namespaces end without having emitted anything. A source of the whole cluster
//     takes their place.
//   - Each namespace is a source of its own, with a name of its own. The guarantees of
//     [streams.EventType] for a source hold for each: list events and bookmarks carry the namespace in
//     their key, and cover only that namespace.
//   - A request that fails is a [streams.Error] on the stream. It is retried within 10 s, for as
//     long as the observation lasts, also while the kind does not exist, or no longer exists.
//   - The first request that fails after a list was emitted also causes a [streams.Disconnected],
//     just before its error. A version that is too old for the server is not a failure: a relist
//     follows at once.
//   - A request without an answer fails after 70 s. An answer that is not a list of the kind is a
//     failure, and no object counts as deleted.
//   - A watch that has confirmed nothing for three quarters of MaxStaleness is probed: the source
//     asks the server which version is current. If everything up to that version was emitted, a
//     Bookmark says so. Otherwise a relist follows; its ListStart is a Reset if the server's
//     versions went back.
//   - If the server sends no bookmarks, the source emits a Bookmark of its own after an event, when
//     a required version is reached or when nothing was confirmed for long.
//
// Watch panics if the options are not valid.
func Watch(client rest.Interface, kind Kind, options WatchOptions) streams.Stream[streams.Event] {
	if err := options.Validate(); err != nil {
		panic(err)
	}
	if options.Status == nil {
		options.Status = &Status{}
	}
	if options.OnObject != nil {
		kind.bodies.wanted.Store(true)
	}
	if !kind.Namespaced() || len(options.Namespaces) == 0 {
		return observe(client, kind, options, "", false)
	}
	var each []streams.Stream[streams.Event]
	for i, namespace := range options.Namespaces {
		each = append(each, observe(client, kind, options, namespace, i == 0))
	}
	return streams.Merge(each...)
}

// observe returns the watch of one namespace, or of all namespaces if namespace is empty. If it turns out
// that the kind has no namespaces, the stream ends, or goes on as the watch of the whole cluster.
func observe(client rest.Interface, kind Kind, options WatchOptions, namespace string, goesOn bool) streams.Stream[streams.Event] {
	return streams.Create(func(ctx context.Context, out streams.Sink[streams.Event]) {
		limited := newWatcher(client, kind, options, namespace)
		limited.run(ctx, out)
		if goesOn && limited.misplaced.Load() {
			newWatcher(client, kind, options, "").run(ctx, out)
		}
	})
}

func newWatcher(client rest.Interface, kind Kind, options WatchOptions, namespace string) *watcher {
	w := &watcher{
		client:    client,
		kind:      kind,
		namespace: namespace,
		options:   options,
		status:    options.Status,
		name:      "watch of " + kind.GroupKind().String(),
		queue:     streams.NewQueue[streams.Event](),
		listing:   make(chan struct{}, 1),
	}
	w.queue.Held = &w.held
	w.fresh.woken = make(chan struct{}, 1)
	w.selecting.woken = make(chan struct{}, 1)
	if namespace != "" {
		w.name += " in " + namespace
	}
	return w
}

// run emits the events of the watch until ctx ends, or until it turns out that the kind has no namespaces.
func (w *watcher) run(ctx context.Context, out streams.Sink[streams.Event]) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w.leave = cancel
	w.status.set(w, Listing)
	defer w.status.forget(w)
	group := lifecycle.New(ctx)
	group.Go(w.name, w.reflect)
	group.Go(w.name+" guard", w.guard)
	if w.options.Selecting != nil {
		group.Go(w.name+" selection", w.followSelection)
	}
	w.queue.Drain(group.Context(), out)
	group.Stop()
	if err := group.Wait(); err != nil {
		out.Error(&streams.Error{Source: w.name, Err: err})
	}
}

// reflect runs the reflector until ctx ends.
func (w *watcher) reflect(ctx context.Context) error {
	if !w.options.Selecting.begun(ctx) {
		return nil
	}
	into := &sink{w, ctx}
	into.first()
	if !w.begins(ctx) {
		return nil
	}
	reflector := cache.NewReflectorWithOptions(w.lister(), w.kind.New(), into, cache.ReflectorOptions{
		Name:    w.name,
		Backoff: retry(),
	})
	reflector.WatchListPageSize = int64(w.options.PageSize)
	for ctx.Err() == nil {
		// RunWithContext returns only when ctx ends. It panics if decoding an object, its
		// projection or Transform does. One bad object must not end the stream.
		err := lifecycle.Guard(func() error { reflector.RunWithContext(ctx); return nil })
		if err != nil {
			w.asked = false
			w.report(ctx, err)
			_ = lifecycle.Pause(ctx, panicPause) // The loop looks at ctx.
		}
	}
	// When ctx ends, the reflector does not wait for a plain list in flight.
	w.listing <- struct{}{}
	<-w.listing
	return nil
}

// panicPause is the wait after a panic, because the same panic is likely to recur.
const panicPause = 10 * time.Second

// RequestError is a failed request of a source. Err holds the API server's answer.
type RequestError struct {
	Verb      string // list, also for a list that was to be streamed, or watch
	Kind      Kind
	Namespace string
	Err       error
}

func (e *RequestError) Error() string {
	where := "in all namespaces"
	switch {
	case !e.Kind.Namespaced():
		where = "in the cluster"
	case e.Namespace != "":
		where = "in namespace " + e.Namespace
	}
	return fmt.Sprintf("cannot %s %s %s: %v", e.Verb, e.Kind.Resource(), where, e.Err)
}

// Unwrap returns the API server's answer, or the error that took its place.
func (e *RequestError) Unwrap() error { return e.Err }
