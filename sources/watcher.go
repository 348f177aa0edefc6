package sources

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bellerophon-io/bellerophon/streams"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// watcher is the state of one observation of a watch: what the reflector calls, and where
// that goes.
//
// An attempt of the reflector's is a list that streams (a watch with sendInitialEvents), a
// plain list instead if that fails, and watches from there on, one after the other.
type watcher struct {
	client    rest.Interface
	kind      Kind
	namespace string
	options   WatchOptions
	status    *Status
	name      string
	inlet     *streams.Queue[streams.Event]
	listing   chan struct{} // is full while a plain list is under way

	fresh    freshness
	speaking sync.Mutex   // is held while what fresh knows and what was put of it change together
	held     atomic.Int64 // events that nobody has taken from the inlet

	// The rest belongs to the reflector, which calls one thing at a time.
	head    string    // the version that the server reported before the list that is under way; empty if that is current
	asked   bool      // head is of the list that is under way
	askedAt time.Time // when the list that is under way was asked for
	known   string    // what fresh knew then
	failed  error     // why the attempt has failed, and the plain list that follows need not try
}

// lister is a watcher as the reflector wants it.
type lister struct {
	cache.ListWatch
	paged bool
}

func (w *watcher) lister() *lister {
	return &lister{cache.ListWatch{ListWithContextFunc: w.list, WatchFuncWithContext: w.watch}, w.options.PageSize > 0}
}

// IsWatchListSemanticsUnSupported is how the reflector is told not to stream lists.
func (l *lister) IsWatchListSemanticsUnSupported() bool { return l.paged }

func (w *watcher) watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	w.fresh.closed()
	if options.SendInitialEvents != nil {
		return w.stream(ctx, options)
	}
	return w.resume(ctx, options)
}

// stream asks for a list that streams in, and goes on as a watch. Without a version, it is as
// current as a quorum read at the time of the request (sendInitialEvents in metav1.ListOptions),
// so that there is no version to ask for.
func (w *watcher) stream(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	w.status.set(w, Listing)
	w.head, w.asked, w.askedAt, w.known = "", false, time.Now(), w.fresh.known()
	if options.ResourceVersion != "" { // What streams in then may be as old as that.
		head, err := w.askHead(ctx, maxAnswer)
		if err != nil {
			return nil, w.giveUp(ctx, err)
		}
		w.head, w.asked = head, true
	}
	stream, err := w.open(ctx, options, "")
	if err == nil || isTooOld(err) || cannotStream(err) { // A plain list takes its place where the server cannot stream.
		return stream, err
	}
	return nil, w.giveUp(ctx, err)
}

// giveUp ends an attempt to list: the plain list that the reflector asks for now would fail as
// well. It must not see why, or it would wait where the end of the observation does not end
// that.
func (w *watcher) giveUp(ctx context.Context, err error) error {
	w.asked = false
	w.failed = errors.New(w.fail(ctx, "list", err).Error())
	return w.failed
}

// cannotStream says whether an answer is that of a server which may still list plainly: it
// does not know how to stream, or refuses to watch.
func cannotStream(err error) bool {
	return apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || apierrors.IsForbidden(err) || apierrors.IsMethodNotSupported(err)
}

// isTooOld says whether a version is too old for the server, or too new: it leads to a list
// of what there is.
func isTooOld(err error) bool {
	return apierrors.IsResourceExpired(err) || apierrors.IsGone(err) || apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge)
}

// list asks for a plain list, or a page of one.
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
	if w.options.PageSize > 0 { // From its cache, at a version, a server would send all at once.
		options.ResourceVersion = ""
	}
	list, err := w.page(ctx, options)
	switch {
	case err == nil:
		return list, nil
	case isTooOld(err) && (options.ResourceVersion != "" || options.Continue != ""):
		return nil, err // The reflector asks for what there is.
	}
	w.asked = false
	return nil, w.fail(ctx, "list", err)
}

func (w *watcher) page(ctx context.Context, options metav1.ListOptions) (*internalversion.List, error) {
	if !w.asked {
		w.askedAt, w.known = time.Now(), w.fresh.known()
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
		return nil, err
	}
	return w.kept(list)
}

// resume opens a watch from where the last one ended.
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
		if streams.OlderVersion(head, known) { // Its versions went back.
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
		w.speaking.Lock()
		defer w.speaking.Unlock()
		connected.Received = time.Now()
		w.inlet.Put(ctx, connected)
		if w.fresh.found(connected.ResourceVersion, connected.Received) {
			w.inlet.Put(ctx, w.bookmark(connected.ResourceVersion, connected.Received))
		}
	}
	return stream, nil
}

// errRelist has the reflector list: as a version that is too old does.
var errRelist = apierrors.NewResourceExpired("the watch does not go on from where it was; listing anew")

func (w *watcher) request(options metav1.ListOptions) *rest.Request {
	options.LabelSelector, options.FieldSelector = w.options.LabelSelector, both(w.options.FieldSelector, options.FieldSelector)
	return w.client.Get().
		MaxRetries(1). // With more, a server that asks for patience again and again is not known to be lost.
		NamespaceIfScoped(w.namespace, w.namespace != "").
		Resource(w.kind.Resource).
		VersionedParams(&options, metav1.ParameterCodec)
}

func (w *watcher) get(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	list, err := w.kind.NewList()
	if err != nil {
		return nil, err
	}
	request := w.request(options)
	if w.kind.form == MetadataOnly {
		request.SetHeader("Accept", acceptMetadataList)
	}
	result := request.Do(ctx)
	if err := result.Into(list); err != nil {
		return nil, because(ctx, err)
	}
	return list, w.kind.isListOf(list, result)
}

// fail tells of a request that failed, unless the end of the observation is why, and waits as
// long as the server wishes.
func (w *watcher) fail(ctx context.Context, verb string, err error) error {
	if ctx.Err() != nil || errors.Is(err, context.Canceled) {
		return err
	}
	err = &RequestError{Verb: verb, Kind: w.kind, Namespace: w.namespace, Err: err}
	w.tell(ctx, err)
	if seconds, wishes := apierrors.SuggestsClientDelay(err); wishes {
		pause(ctx, min(time.Duration(seconds)*time.Second, maxWait))
	}
	return err
}

// tell reports a failure: after it, what was emitted before may be outdated. A watch that is
// open ends.
func (w *watcher) tell(ctx context.Context, err error) {
	w.speaking.Lock()
	defer w.speaking.Unlock()
	w.status.Errors.Add(1)
	w.status.set(w, BackingOff)
	refused := apierrors.IsNotFound(err) || apierrors.IsForbidden(err) || apierrors.IsMethodNotSupported(err)
	if refused && !w.fresh.isListed() { // It stays so until the first list, whatever else fails.
		w.status.refuse(w, true)
	}
	lost := w.fresh.lose()
	w.fresh.stop() // When the reflector goes on, it finds that the server is lost.
	if lost {
		w.inlet.Put(ctx, w.event(streams.Disconnected))
	}
	w.inlet.Error(ctx, &streams.Error{Source: w.name, Err: err})
}

// bookmark returns an event that says that all up to a version was emitted.
func (w *watcher) bookmark(version string, at time.Time) streams.Event {
	mark := w.event(streams.Bookmark)
	mark.ResourceVersion, mark.Received = version, at
	return mark
}

// event is an event without an object: its key says what it speaks for.
func (w *watcher) event(kind streams.EventType) streams.Event {
	event := streams.Event{Type: kind, Source: w.name, Received: time.Now()}
	event.Key.GroupKind, event.Key.Namespace = w.kind.GroupKind(), w.namespace
	return event
}
