package sources

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// openWatch is a watch that cancels its context when it ends.
type openWatch struct {
	watch.Interface
	ended  atomic.Bool
	cancel context.CancelFunc
	over   func() // called when the reflector is done with the watch

	selector string // of the selection, with which it was requested
}

// Stop ends the watch. The reflector calls it when the watch has ended, and also when the server
// has sent an error, which the reflector does not pass on.
func (o *openWatch) Stop() {
	if !o.ended.Load() {
		o.over()
	}
	o.end()
}

// end ends the watch. It may be called from any goroutine, and more than once.
func (o *openWatch) end() {
	o.ended.Store(true)
	o.Interface.Stop()
	o.cancel()
}

// open opens a watch. After a loss of the server, head is the version that is current; otherwise it
// is empty.
func (w *watcher) open(ctx context.Context, options metav1.ListOptions, head string) (watch.Interface, error) {
	options.Watch = true
	selector := w.options.Selecting.server()
	request := w.request(options)
	if options.TimeoutSeconds != nil {
		request = request.Timeout(time.Duration(*options.TimeoutSeconds) * time.Second)
	}
	// The context lasts as long as the watch; only the answer is bounded in time.
	opening, cancel := context.WithCancelCause(ctx)
	late := time.AfterFunc(maxAnswer, func() { cancel(errNoAnswer) })
	defer late.Stop()
	stream, err := request.Watch(opening)
	if err != nil {
		err = because(opening, err)
		cancel(nil)
		return nil, err
	}
	w.kind.at.served.Store(true)
	w.status.Watches.Add(1)
	opened := &openWatch{Interface: stream, selector: selector, cancel: func() { cancel(nil) }, over: func() { w.ended(ctx) }}
	w.fresh.opened(opened, head, options.SendInitialEvents != nil)
	w.selecting.poke()
	return opened, nil
}

// ended reports the error event that has ended a watch, if there was one. A version that is too old
// is not a failure.
func (w *watcher) ended(ctx context.Context) {
	err := w.kind.failures.take()
	if err != nil && !isTooOld(err) && w.fresh.isListed() {
		_ = w.fail(ctx, "watch", err) // The reflector has the error, and continues after a backoff.
	}
}

// within returns a context that ends with errNoAnswer if the server takes longer than timeout.
func (w *watcher) within(ctx context.Context, timeout time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, timeout, errNoAnswer)
}

// errNoAnswer is the cause of a request that was given up.
var errNoAnswer = errors.New("the server accepted the request and did not answer in time")

// because returns err, or errNoAnswer if that is why the request's context ended.
func because(ctx context.Context, err error) error {
	if errors.Is(context.Cause(ctx), errNoAnswer) {
		return fmt.Errorf("%w: %w", errNoAnswer, context.DeadlineExceeded)
	}
	return err
}
