package sources

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/streams"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// watcher is the state of one observation of a watch. The reflector calls its methods, and its
// events go to a queue.
//
// An attempt of the reflector begins with a streamed list (a watch with sendInitialEvents), or a
// plain list if streaming fails. From there the reflector opens one watch after another.
type watcher struct {
	client    rest.Interface
	kind      Kind
	namespace string
	options   WatchOptions
	status    *Status
	name      string
	queue     *streams.Queue[streams.Event]
	listing   chan struct{} // full while a plain list is in flight
	selecting selecting
	leave     func()      // ends the watch
	misplaced atomic.Bool // the watch has ended, because the kind has no namespaces

	fresh    freshness
	emitting sync.Mutex   // held while fresh and the events that depend on it change together
	held     atomic.Int64 // events that the reader has not taken from the queue

	// The remaining fields belong to the reflector, which makes one call at a time.
	head    string    // the version that the server reported before the list in flight; empty if the list is current
	asked   bool      // head belongs to the list in flight
	askedAt time.Time // when the list in flight was requested
	known   string    // the newest version in fresh at that time
	listed  int64     // the number of the selection at that time
	failed  error     // why the attempt has failed; the plain list that follows returns it instead of asking again
}

// lister is a watcher in the form that the reflector needs.
type lister struct {
	cache.ListWatch
	paged bool
}

func (w *watcher) lister() *lister {
	return &lister{cache.ListWatch{ListWithContextFunc: w.list, WatchFuncWithContext: w.watch}, w.options.PageSize > 0}
}

// IsWatchListSemanticsUnSupported reports whether the reflector must not stream lists.
func (l *lister) IsWatchListSemanticsUnSupported() bool { return l.paged }

func (w *watcher) watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	w.fresh.closed()
	if options.SendInitialEvents != nil {
		return w.stream(ctx, options)
	}
	return w.resume(ctx, options)
}

// stream requests a list that is streamed and continues as a watch. Without a version, the list is
// as current as a quorum read at the time of the request (sendInitialEvents in metav1.ListOptions).
// In that case stream does not need to ask for the current version.
func (w *watcher) stream(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	w.status.set(w, Listing)
	w.head, w.asked, w.askedAt, w.known = "", false, time.Now(), w.fresh.known()
	w.listed = w.options.Selecting.number()
	if options.ResourceVersion != "" { // The streamed list may be as old as this version.
		head, err := w.askHead(ctx, maxAnswer)
		if err != nil {
			return nil, w.giveUp(ctx, err)
		}
		w.head, w.asked = head, true
	}
	stream, err := w.open(ctx, options, "")
	if err != nil {
		var moved bool
		if moved, err = w.relocated(ctx, err); moved {
			stream, err = w.open(ctx, options, "")
		}
	}
	if err == nil || isTooOld(err) || cannotStream(err) { // If the server cannot stream, the reflector requests a plain list instead.
		return stream, err
	}
	return nil, w.giveUp(ctx, err)
}

// giveUp ends an attempt to list, because the plain list that the reflector requests next would
// fail as well. The returned error hides its cause from the reflector. The reflector waits after
// some causes, and the end of the observation would not interrupt that wait.
func (w *watcher) giveUp(ctx context.Context, err error) error {
	w.asked = false
	w.failed = errors.New(w.fail(ctx, "list", err).Error())
	return w.failed
}

// cannotStream reports whether the server may still answer a plain list: it does not support
// streaming, or refuses to watch.
func cannotStream(err error) bool {
	return apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || apierrors.IsForbidden(err) || apierrors.IsMethodNotSupported(err)
}

// isTooOld reports whether a version is too old for the server, or too new. Both lead to a relist.
func isTooOld(err error) bool {
	return apierrors.IsResourceExpired(err) || apierrors.IsGone(err) || apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge)
}

// list requests a plain list, or a page of one.
func (w *watcher) list(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	w.listing <- struct{}{}
	defer func() { <-w.listing }()
	if err := ctx.Err(); err != nil { // The reflector may have returned before its list began.
		return nil, err
	}
	if err := w.failed; err != nil {
		w.failed = nil
		return nil, err
	}
	w.fresh.closed()
	w.status.set(w, Listing)
	if w.options.PageSize > 0 { // With a version, the server would answer from its cache, and send everything at once.
		options.ResourceVersion = ""
	}
	list, err := w.page(ctx, options)
	switch {
	case err == nil:
		return list, nil
	case isTooOld(err) && (options.ResourceVersion != "" || options.Continue != ""):
		return nil, err // The reflector lists again without a version.
	}
	w.asked = false
	return nil, w.fail(ctx, "list", err)
}

func (w *watcher) page(ctx context.Context, options metav1.ListOptions) (*internalversion.List, error) {
	if !w.asked {
		w.askedAt, w.known, w.listed = time.Now(), w.fresh.known(), w.options.Selecting.number()
		w.head = "" // Without a version, a list is as current as a quorum read at the time of the request.
		if options.ResourceVersion != "" {
			head, err := w.askHead(ctx, maxAnswer)
			if err != nil {
				return nil, err
			}
			w.head = head
		}
		w.asked = true
	}
	ctx, cancel := w.within(ctx, maxAnswer)
	defer cancel()
	list, err := w.get(ctx, options)
	if err != nil {
		var moved bool
		if moved, err = w.relocated(ctx, err); moved {
			list, err = w.get(ctx, options)
		}
	}
	if err != nil {
		return nil, err
	}
	return w.kept(list)
}

// resume opens a watch from the version at which the last one ended.
func (w *watcher) resume(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	if w.fresh.takeRelist() {
		return nil, errRelist
	}
	connected := w.event(streams.Connected)
	lost := w.fresh.isLost()
	if lost {
		known := w.fresh.known()
		head, err := w.askHead(ctx, maxAnswer)
		if err != nil {
			return nil, w.fail(ctx, "watch", err)
		}
		if streams.IsOlderVersion(head, known) { // The server's versions went back.
			return nil, errRelist
		}
		connected.ResourceVersion = head
	}
	stream, err := w.open(ctx, options, connected.ResourceVersion)
	switch {
	case err == nil:
	case isTooOld(err):
		return nil, err
	default:
		return nil, w.fail(ctx, "watch", err)
	}
	w.status.set(w, Watching)
	if lost {
		w.emitting.Lock()
		defer w.emitting.Unlock()
		connected.Received = time.Now()
		w.queue.Put(ctx, connected)
		if w.fresh.found(connected.ResourceVersion, connected.Received) {
			w.queue.Put(ctx, w.bookmark(connected.ResourceVersion, connected.Received))
		}
	}
	return stream, nil
}

// errRelist makes the reflector relist, as an expired version does.
var errRelist = apierrors.NewResourceExpired("the watch cannot resume; relisting")

func (w *watcher) request(options metav1.ListOptions) *rest.Request {
	options.LabelSelector, options.FieldSelector = w.options.LabelSelector, both(w.options.FieldSelector, options.FieldSelector)
	options.ShardSelector = w.options.Selecting.server()
	return w.client.Get().
		MaxRetries(1). // With more retries, a server that keeps answering Retry-After would not count as lost.
		NamespaceIfScoped(w.namespace, w.namespace != "").
		Resource(w.kind.Resource()).
		VersionedParams(&options, metav1.ParameterCodec)
}

func (w *watcher) get(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	return w.kind.listed(ctx, w.request(options))
}

// fail reports a request that failed, and waits as long as the server asks for. It reports nothing
// if the end of the observation is the cause.
func (w *watcher) fail(ctx context.Context, verb string, err error) error {
	if ctx.Err() != nil || errors.Is(err, context.Canceled) {
		return err
	}
	err = &RequestError{Verb: verb, Kind: w.kind, Namespace: w.namespace, Err: err}
	w.report(ctx, err)
	if seconds, wishes := apierrors.SuggestsClientDelay(err); wishes {
		_ = lifecycle.Pause(ctx, min(time.Duration(seconds)*time.Second, maxWait)) // The caller looks at ctx.
	}
	return err
}

// report reports a failure and ends the open watch. Everything emitted before may be stale from then
// on.
func (w *watcher) report(ctx context.Context, err error) {
	w.emitting.Lock()
	defer w.emitting.Unlock()
	w.status.Errors.Add(1)
	w.status.set(w, BackingOff)
	refused := apierrors.IsNotFound(err) || apierrors.IsForbidden(err) || apierrors.IsMethodNotSupported(err)
	if refused && !w.fresh.isListed() { // The watch counts as refused until the first list, whatever else fails.
		w.status.refuse(w, true)
	}
	if isUnknownPath(err) && w.fresh.isListed() && w.status.OnMissing != nil {
		w.status.OnMissing()
	}
	lost := w.fresh.lose()
	w.fresh.stop() // When the reflector resumes, it sees that the server is lost.
	if lost {
		w.queue.Put(ctx, w.event(streams.Disconnected))
	}
	w.queue.Error(ctx, &streams.Error{Source: w.name, Err: err})
}

// bookmark returns an event saying that everything up to a version was emitted.
func (w *watcher) bookmark(version string, at time.Time) streams.Event {
	mark := w.event(streams.Bookmark)
	mark.ResourceVersion, mark.Received = version, at
	return mark
}

// event returns an event without an object. Its key says which kind and namespace it covers.
func (w *watcher) event(kind streams.EventType) streams.Event {
	event := streams.Event{Type: kind, Source: w.name, Received: time.Now()}
	event.Key.Group, event.Key.Kind, event.Key.Namespace = w.kind.Group, w.kind.Kind, w.namespace
	return event
}
