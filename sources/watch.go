package sources

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/streams"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// WatchOptions set up [Watch]. The zero value watches all objects of the kind.
type WatchOptions struct {
	Namespace     string // all, if empty
	LabelSelector string
	FieldSelector string

	// Keep changes an object before it enters the stream, to keep only what is read of
	// it. The default drops the managed fields, half of many an object. It must be fast
	// and must come to the same when it is applied twice.
	Keep func(object streams.Object)

	// Status, if set, tells how the watch is doing.
	Status *Status
}

// Status tells how a watch is doing. Read it from any goroutine.
type Status struct {
	Lists   atomic.Int64 // lists that were completed
	Watches atomic.Int64 // watches that were opened
	Errors  atomic.Int64 // requests that failed
	Last    atomic.Int64 // when the last event or bookmark came, in Unix nanoseconds
	State   atomic.Int32 // a WatchState
}

// WatchState is what a watch is doing.
type WatchState int32

// The states of a watch.
const (
	Listing WatchState = iota
	Watching
	BackingOff
)

// String is the state's name in metrics.
func (s WatchState) String() string { return [...]string{"listing", "watching", "backing_off"}[s] }

// retry is how the reflector waits after failures. Its default starts at 800 ms and
// reaches 30 s; a resource definition that is about to be installed should not cost that.
func retry() *wait.Backoff {
	return &wait.Backoff{Duration: 250 * time.Millisecond, Factor: 2, Jitter: 0.5, Steps: 6, Cap: 10 * time.Second}
}

// Watch is the objects of a kind on an API server, as a stream that lists them and then
// watches. Listing, resuming, bookmarks, expiry and backoff are those of client-go's
// Reflector: it streams the list (WatchList) where the server can.
//
//   - ListStart of the first list carries the resource version that the server reported
//     as current when the list was asked for.
//   - A request that fails is a [streams.Error] on the stream. It is tried again, for as
//     long as the observation lasts: also when the kind does not exist yet.
func Watch(client rest.Interface, kind Kind, options WatchOptions) streams.Stream[streams.Event] {
	if options.Keep == nil {
		options.Keep = dropManagedFields
	}
	return streams.Create(func(ctx context.Context, out streams.Sink[streams.Event]) {
		status := options.Status
		if status == nil {
			status = &Status{}
		}
		w := &watcher{
			client:  client,
			kind:    kind,
			options: options,
			status:  status,
			name:    "watch of " + kind.GroupKind().String(),
			inlet:   streams.NewInlet[streams.Event](),
			listing: make(chan struct{}, 1),
		}
		group := lifecycle.New(ctx)
		group.Go(w.name, w.reflect)
		w.inlet.Drain(group.Context(), out)
		group.Stop()
		if err := group.Wait(); err != nil {
			out.Error(&streams.Error{Source: w.name, Err: err})
		}
	})
}

func dropManagedFields(object streams.Object) { object.SetManagedFields(nil) }

// watcher is the state of one observation of Watch: what the reflector calls, and where
// that goes.
type watcher struct {
	client  rest.Interface
	kind    Kind
	options WatchOptions
	status  *Status
	name    string
	inlet   *streams.Inlet[streams.Event]
	head    string        // the version that the server reported before the first list
	listing chan struct{} // is full while a plain list is under way
}

// reflect runs the reflector until ctx ends.
func (w *watcher) reflect(ctx context.Context) error {
	lister := &cache.ListWatch{ListWithContextFunc: w.list, WatchFuncWithContext: w.watch}
	reflector := cache.NewReflectorWithOptions(lister, w.kind.New(), &sink{w, ctx}, cache.ReflectorOptions{
		Name:    w.name,
		Backoff: retry(),
	})
	for ctx.Err() == nil {
		// It returns at the end of ctx only, and panics where the decoding of an object or Keep
		// does: the stream must not end of one object that is bad.
		err := lifecycle.Guard(func() error { reflector.RunWithContext(ctx); return nil })
		if err != nil {
			w.status.Errors.Add(1)
			w.status.State.Store(int32(BackingOff))
			w.inlet.Error(ctx, &streams.Error{Source: w.name, Err: err})
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

func (w *watcher) request(options metav1.ListOptions) *rest.Request {
	options.LabelSelector, options.FieldSelector = w.options.LabelSelector, w.options.FieldSelector
	return w.client.Get().
		NamespaceIfScoped(w.options.Namespace, w.kind.Namespaced && w.options.Namespace != "").
		Resource(w.kind.Resource).
		VersionedParams(&options, metav1.ParameterCodec)
}

func (w *watcher) list(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	w.listing <- struct{}{}
	defer func() { <-w.listing }()
	w.status.State.Store(int32(Listing))
	if err := w.askHead(ctx); err != nil {
		return nil, w.failed(ctx, "list", err)
	}
	list, err := w.get(ctx, options)
	if err != nil {
		return nil, w.failed(ctx, "list", err)
	}
	return list, nil
}

func (w *watcher) get(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	list, err := w.kind.NewList()
	if err != nil {
		return nil, err
	}
	return list, w.request(options).Do(ctx).Into(list)
}

func (w *watcher) watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	state := Watching
	if options.SendInitialEvents != nil {
		state = Listing // Until the list is complete: see Replace.
		w.status.State.Store(int32(state))
	}
	if err := w.askHead(ctx); err != nil {
		return nil, w.failed(ctx, "list", err)
	}
	options.Watch = true
	request := w.request(options)
	if options.TimeoutSeconds != nil {
		request = request.Timeout(time.Duration(*options.TimeoutSeconds) * time.Second)
	}
	stream, err := request.Watch(ctx)
	if err != nil {
		return nil, w.failed(ctx, "watch", err)
	}
	w.status.Watches.Add(1)
	w.status.State.Store(int32(state))
	return stream, nil
}

// askHead asks the server, once, which version is current.
func (w *watcher) askHead(ctx context.Context) error {
	if w.head != "" {
		return nil
	}
	list, err := w.get(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return err
	}
	listed, ok := list.(metav1.ListInterface)
	if !ok {
		return fmt.Errorf("a %T has no resource version", list)
	}
	w.head = listed.GetResourceVersion()
	return nil
}

// failed reports a request that failed, unless the end of the observation is why.
func (w *watcher) failed(ctx context.Context, verb string, err error) error {
	if ctx.Err() != nil || errors.Is(err, context.Canceled) {
		return err
	}
	w.status.Errors.Add(1)
	w.status.State.Store(int32(BackingOff))
	err = &RequestError{Verb: verb, Kind: w.kind, Namespace: w.options.Namespace, Err: err}
	w.inlet.Error(ctx, &streams.Error{Source: w.name, Err: err})
	return err
}

// RequestError is a request of a source that failed. The API server's answer is in Err.
type RequestError struct {
	Verb      string // list or watch
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

// Kept brings an object into the form that a watch with these options keeps.
func Kept(options WatchOptions, object streams.Object) {
	if options.Keep == nil {
		options.Keep = dropManagedFields
	}
	options.Keep(object)
}
