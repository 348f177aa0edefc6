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

// openWatch is a watch whose end frees its context.
type openWatch struct {
	watch.Interface
	ended  atomic.Bool
	cancel context.CancelFunc
	over   func() // is called when the reflector is done with the watch
}

// Stop is called by the reflector when the watch has ended, and also when the server has sent
// an error, which the reflector keeps to itself.
func (o *openWatch) Stop() {
	if !o.ended.Load() {
		o.over()
	}
	o.end()
}

// end ends the watch. It may be called from any goroutine, also more than once.
func (o *openWatch) end() {
	o.ended.Store(true)
	o.Interface.Stop()
	o.cancel()
}

// open opens a watch. After a loss, head is the version that is current.
func (w *watcher) open(ctx context.Context, options metav1.ListOptions, head string) (watch.Interface, error) {
	options.Watch = true
	request := w.request(options)
	if options.TimeoutSeconds != nil {
		request = request.Timeout(time.Duration(*options.TimeoutSeconds) * time.Second)
	}
	// The context lasts as long as the watch; only the answer has to come in time.
	opening, cancel := context.WithCancelCause(ctx)
	late := time.AfterFunc(maxAnswer, func() { cancel(errNoAnswer) })
	defer late.Stop()
	stream, err := request.Watch(opening)
	if err != nil {
		err = because(opening, err)
		cancel(nil)
		return nil, err
	}
	w.status.Watches.Add(1)
	opened := &openWatch{Interface: stream, cancel: func() { cancel(nil) }, over: func() { w.ended(ctx) }}
	w.fresh.opened(opened, head, options.SendInitialEvents != nil)
	return opened, nil
}

// ended tells of an error event that has ended a watch, if one has. A version that is too old is
// no failure.
func (w *watcher) ended(ctx context.Context) {
	err := w.kind.failures.take()
	if err != nil && !isTooOld(err) && w.fresh.isListed() {
		_ = w.fail(ctx, "watch", err) // The reflector has it, and goes on after a backoff.
	}
}

// within bounds how long the server may take to answer, and says so in the error.
func (w *watcher) within(ctx context.Context, timeout time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, timeout, errNoAnswer)
}

// errNoAnswer is why a request was given up.
var errNoAnswer = errors.New("the server took the request and did not answer in time")

// because returns an error with the reason for the end of its context, if that was ours.
func because(ctx context.Context, err error) error {
	if errors.Is(context.Cause(ctx), errNoAnswer) {
		return fmt.Errorf("%w: %w", errNoAnswer, context.DeadlineExceeded)
	}
	return err
}
