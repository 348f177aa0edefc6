package forward

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/bellerophon-io/bellerophon/bellerophon/dev/container"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/streaming/pkg/httpstream"
)

// retry returns the times between attempts to connect to a pod.
func retry() wait.Backoff {
	return wait.Backoff{Duration: 200 * time.Millisecond, Factor: 2, Jitter: 0.1, Steps: 10, Cap: 5 * time.Second}
}

// link is a connection to a pod.
type link struct {
	connection httpstream.Connection
	retired    chan struct{} // closed when no more streams are wanted
	close      func()        // may be called more than once

	// The following belong to Forwards.mu.
	requests int
	users    int
	opened   bool // a stream was opened
}

func newLink(connection httpstream.Connection, before func()) *link {
	return &link{connection: connection, retired: make(chan struct{}), close: sync.OnceFunc(func() {
		before()
		_ = connection.Close() // The pod may have closed it.
	})}
}

func (l *link) isClosed() bool {
	select {
	case <-l.connection.CloseChan():
		return true
	default:
		return false
	}
}

// request is the pair of streams of one local connection.
type request struct {
	data    httpstream.Stream
	problem httpstream.Stream // carries the message of the pod about a failure
	err     error             // the streams could not be opened
}

// open opens the streams of a local connection. CreateStream waits for up to 30 seconds, also when the link is closed
// meanwhile. So open does not wait for it, and a function of the group discards what comes late.
func (l *link) open(ctx context.Context, group *lifecycle.Group, number, target int) (request, error) {
	opened, abandoned := make(chan request), make(chan struct{})
	defer close(abandoned)
	group.Go("open a stream to the pod", func(context.Context) error {
		made := l.create(number, target)
		select {
		case opened <- made:
		case <-abandoned:
			if made.err == nil {
				l.discard(made)
			}
		}
		return nil
	})
	select {
	case made := <-opened:
		return made, made.err
	case <-l.connection.CloseChan():
		return request{}, errLost
	case <-ctx.Done():
		return request{}, ctx.Err()
	}
}

func (l *link) create(number, target int) (made request) {
	headers := http.Header{}
	headers.Set(corev1.PortHeader, strconv.Itoa(target))
	headers.Set(corev1.PortForwardRequestIDHeader, strconv.Itoa(number))
	headers.Set(corev1.StreamType, corev1.StreamTypeError)
	if made.problem, made.err = l.createStream(headers); made.err != nil {
		return made
	}
	_ = made.problem.Close() // Only the pod writes to it.
	headers.Set(corev1.StreamType, corev1.StreamTypeData)
	if made.data, made.err = l.createStream(headers); made.err != nil {
		_ = made.problem.Reset()
		l.connection.RemoveStreams(made.problem)
	}
	return made
}

// createStream creates a stream. Nothing removes a stream that is created after the connection was lost, and Close waits
// for it without end. So createStream asks first whether the connection is lost.
func (l *link) createStream(headers http.Header) (httpstream.Stream, error) {
	if l.isClosed() {
		return nil, errLost
	}
	return l.connection.CreateStream(headers)
}

// discard frees the streams of a request.
func (l *link) discard(made request) {
	_ = made.data.Reset() // The connection may be closed.
	_ = made.problem.Reset()
	l.connection.RemoveStreams(made.data, made.problem)
}

// connect keeps a connection to the pod, whichever it is, until ctx ends.
func (f *Forwards) connect(ctx context.Context) error {
	for ctx.Err() == nil {
		podContext, abandon := context.WithCancel(ctx)
		f.mu.Lock()
		f.abandon = abandon
		pod := f.pod
		f.mu.Unlock()
		if pod.Pod != "" {
			f.connectTo(podContext, pod)
		}
		<-podContext.Done()
		abandon()
	}
	return nil
}

// connectTo keeps a connection to one pod until ctx ends. A connection that is lost or retired is replaced.
func (f *Forwards) connectTo(ctx context.Context, pod container.Place) {
	var links []*link
	defer func() {
		for _, one := range links {
			one.close()
		}
	}()
	backoff, said := retry(), ""
	for ctx.Err() == nil {
		made, err := f.dial(ctx, pod)
		if err == nil {
			links = append(slices.DeleteFunc(links, (*link).isClosed), made)
			began, retired := time.Now(), false
			f.use(made)
			select {
			case <-made.connection.CloseChan():
			case <-made.retired:
				retired = true
			case <-ctx.Done():
			}
			hasWorked := f.leave(made)
			if said = ""; retired && hasWorked || time.Since(began) > retry().Cap {
				backoff = retry()
			}
			if retired && hasWorked { // The next local connection should not wait.
				continue
			}
		} else if ctx.Err() == nil && err.Error() != said {
			said = err.Error()
			f.logger.Warn("forward ports: no connection to the pod; trying again", "pod", pod.Pod, "error", err)
		}
		select {
		case <-time.After(backoff.Step()):
		case <-ctx.Done():
		}
	}
}

// use makes local connections use a link.
func (f *Forwards) use(made *link) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.link = made
	close(f.linked)
	f.linked = make(chan struct{})
}

// leave makes local connections wait for the next link. A retired link is closed when the last one has released it.
// leave reports whether the link has opened a stream.
func (f *Forwards) leave(left *link) (hasWorked bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.link = nil
	if left.users == 0 {
		left.close()
	}
	return left.opened
}

var (
	errImpatient = errors.New("no pod has served the connection in time")
	errLost      = errors.New("the connection to the pod is lost")
	errCrowded   = errors.New("too many connections wait for a pod")
)

// acquire waits for a link, and returns it with the number of the request. The caller must release the link.
func (f *Forwards) acquire(ctx context.Context) (*link, int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.link == nil {
		if f.waiting >= f.maxWaiting {
			return nil, 0, errCrowded
		}
		f.waiting++
		defer func() { f.waiting-- }()
	}
	for f.link == nil {
		linked := f.linked
		f.mu.Unlock()
		var err error
		select {
		case <-linked:
		case <-ctx.Done():
			err = errImpatient
		}
		f.mu.Lock()
		if err != nil {
			return nil, 0, err
		}
	}
	f.link.users++
	f.link.requests++
	return f.link, f.link.requests, nil
}

// release ends the use of a link, with which a stream may have been opened. If the link should get no more streams, it
// is retired.
func (f *Forwards) release(used *link, opened, retire bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	used.opened = used.opened || opened
	used.users--
	if retire && f.link == used {
		f.link = nil
		close(used.retired)
	}
	if used.users == 0 && f.link != used {
		used.close()
	}
}
