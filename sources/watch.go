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

// retry is how the reflector waits after failures: 250 ms at first, and never more than
// 10 s. Its default starts at 800 ms and reaches a minute; a resource definition that is
// about to be installed should not cost that.
func retry() *wait.Backoff {
	return &wait.Backoff{Duration: 250 * time.Millisecond, Factor: 2, Jitter: 0.25, Steps: 6, Cap: 8 * time.Second}
}

// Watch is the objects of a kind on an API server, as a stream that lists them and then
// watches. Listing, resuming, bookmarks, expiry and backoff are those of client-go's
// Reflector.
//
//   - ListStart of a list carries the resource version that the server reported as current
//     when the list was asked for. It carries none if the list itself is current, as one is that
//     is asked for without a version.
//   - What is to be First is Applied before the first list.
//   - Each namespace is a source of its own, with a name of its own, and all that the
//     vocabulary says of a source is true of each: its list events and bookmarks carry the
//     namespace in their key and speak for that alone.
//   - A request that fails is a [streams.Error] on the stream. It is tried again within
//     10 s, for as long as the observation lasts: also when the kind does not exist yet, or
//     no more.
//   - The first request that fails after a list was emitted is [streams.Disconnected] as
//     well, just before its error. A version that is too old for the server is no failure: a
//     new list follows at once.
//   - A request that is not answered within 70 s fails. An answer that is not a list of the
//     kind is a failure, and nothing counts as deleted.
//   - A watch that has confirmed nothing for three quarters of MaxStaleness is probed: the
//     server is asked which version is current. If that is the one up to which all was emitted, a
//     Bookmark says so. Otherwise a list follows, whose ListStart is a Reset if the server's
//     versions went back.
//   - From a server that sends no bookmarks, events stand for them: where a version is to be
//     reached, and where nothing was confirmed for long.
//
// It panics on options that do not validate.
func Watch(client rest.Interface, kind Kind, options WatchOptions) streams.Stream[streams.Event] {
	if err := options.Validate(); err != nil {
		panic(err)
	}
	if options.Status == nil {
		options.Status = &Status{}
	}
	if !kind.Namespaced || len(options.Namespaces) == 0 {
		return observe(client, kind, options, "")
	}
	var each []streams.Stream[streams.Event]
	for _, namespace := range options.Namespaces {
		each = append(each, observe(client, kind, options, namespace))
	}
	return streams.Merge(each...)
}

// observe is the watch of one namespace, or of all, if it is empty.
func observe(client rest.Interface, kind Kind, options WatchOptions, namespace string) streams.Stream[streams.Event] {
	return streams.Create(func(ctx context.Context, out streams.Sink[streams.Event]) {
		w := &watcher{
			client:    client,
			kind:      kind,
			namespace: namespace,
			options:   options,
			status:    options.Status,
			name:      "watch of " + kind.GroupKind().String(),
			inlet:     streams.NewQueue[streams.Event](),
			listing:   make(chan struct{}, 1),
		}
		w.inlet.Held = &w.held
		w.fresh.woken = make(chan struct{}, 1)
		if namespace != "" {
			w.name += " in " + namespace
		}
		w.status.set(w, Listing)
		defer w.status.forget(w)
		group := lifecycle.New(ctx)
		group.Go(w.name, w.reflect)
		group.Go(w.name+" guard", w.guard)
		w.inlet.Drain(group.Context(), out)
		group.Stop()
		if err := group.Wait(); err != nil {
			out.Error(&streams.Error{Source: w.name, Err: err})
		}
	})
}

// reflect runs the reflector until ctx ends.
func (w *watcher) reflect(ctx context.Context) error {
	into := &sink{w, ctx}
	into.first()
	reflector := cache.NewReflectorWithOptions(w.lister(), w.kind.New(), into, cache.ReflectorOptions{
		Name:    w.name,
		Backoff: retry(),
	})
	reflector.WatchListPageSize = int64(w.options.PageSize)
	for ctx.Err() == nil {
		// It returns at the end of ctx only, and panics where the decoding of an object, its
		// projection or Transform does: the stream must not end of one object that is bad.
		err := lifecycle.Guard(func() error { reflector.RunWithContext(ctx); return nil })
		if err != nil {
			w.asked = false
			w.tell(ctx, err)
			pause(ctx, panicPause)
		}
	}
	// When ctx ends the reflector does not wait for a plain list that is under way.
	w.listing <- struct{}{}
	<-w.listing
	return nil
}

// panicPause is the wait after a panic, which is likely to come again.
const panicPause = 10 * time.Second

// pause waits for a time, or for the end of ctx.
func pause(ctx context.Context, wait time.Duration) {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// RequestError is a request of a source that failed. The API server's answer is in Err.
type RequestError struct {
	Verb      string // list, also for a list that was to stream in, or watch
	Kind      Kind
	Namespace string
	Err       error
}

func (e *RequestError) Error() string {
	where := "in all namespaces"
	switch {
	case !e.Kind.Namespaced:
		where = "in the cluster"
	case e.Namespace != "":
		where = "in namespace " + e.Namespace
	}
	return fmt.Sprintf("cannot %s %s %s: %v", e.Verb, e.Kind.Resource, where, e.Err)
}

// Unwrap is the API server's answer, or what came instead of one.
func (e *RequestError) Unwrap() error { return e.Err }
